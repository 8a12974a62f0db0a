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
