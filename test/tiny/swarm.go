package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// litterers is how many processes fill a directory: together they are faster than one that
// empties it.
const litterers = 6

func litter(dir string) {
	filled := dir + ".new"
	check(os.Mkdir(filled, 0o700))
	for n := range litterers {
		leave("litterer", filled, strconv.Itoa(n))
	}
	time.Sleep(time.Second)
	check(os.Rename(filled, dir))
}

// litterer fills a directory, wherever it is moved.
func litterer(dir string) {
	signal.Ignore(syscall.SIGTERM)
	at, err := os.OpenRoot(dir)
	check(err)
	prefix := strconv.Itoa(os.Getpid()) + "-"
	for n := 0; ; n = (n + 1) % 3000 {
		_ = at.Mkdir(prefix+strconv.Itoa(n), 0o700)
	}
}

// leave starts tiny with these arguments as a daemon.
func leave(args ...string) {
	daemon := exec.Command("/proc/self/exe", args...)
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	check(daemon.Start())
	go func() { _ = daemon.Wait() }()
}

// respawners is how many processes start each other again.
const respawners = 30

// respawner starts those of its kind that do not run: each holds a lock in a directory. They
// end after some minutes, so that a test that fails leaves nothing behind.
func respawner(dir, own, until string) {
	signal.Ignore(syscall.SIGTERM)
	if seize(filepath.Join(dir, own)) == nil {
		return // it runs already
	}
	end, err := strconv.ParseInt(until, 10, 64)
	check(err)
	for ; time.Now().Before(time.Unix(end, 0)); time.Sleep(10 * time.Millisecond) {
		for n := range respawners {
			if held := seize(filepath.Join(dir, strconv.Itoa(n))); held != nil {
				check(held.Close())
				leave("respawner", dir, strconv.Itoa(n), until)
			}
		}
	}
	os.Exit(0) // with its lock held until then
}

// seize returns a file that is locked for as long as it is open, nil if another process has it.
func seize(path string) *os.File {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	check(err)
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		check(f.Close())
		return nil
	}
	return f
}
