package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What is in the directory of the host that a service which breeds guests shares with a
// test.
const (
	ordersFile = "orders" // while it exists guests are born: the longest pause between two, in microseconds
	lastFile   = "last"   // how many are born after SIGTERM
	bornFile   = "born"   // each guest: its process, when that started, when it was recorded, how it was born
	lockFile   = "lock"   // the service that runs holds it
	twiceFile  = "twice"  // exists if two services ran at one time
)

// breed answers at an address, and starts guests with a UUID as a test orders it. After
// SIGTERM it starts the last ones and exits at once, though another may be half born.
func breed(address, word, dir, uuid string) {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	lock(dir)
	go serve(address, word)
	go func() {
		for ; ; time.Sleep(time.Millisecond) {
			if pause, ordered := order(dir, ordersFile); ordered {
				bear(dir, uuid, "ordered")
				time.Sleep(rand.N(time.Duration(pause)*time.Microsecond + 1))
			}
		}
	}()
	<-end
	last, _ := order(dir, lastFile)
	for range last {
		bear(dir, uuid, "last")
	}
}

// lock tells if another service runs. A process does not inherit this lock, and loses it
// when it exits (fcntl_locking(2)).
func lock(dir string) {
	fd, err := syscall.Open(filepath.Join(dir, lockFile), syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600)
	check(err)
	err = syscall.FcntlFlock(uintptr(fd), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		check(os.WriteFile(filepath.Join(dir, twiceFile), nil, 0o600))
	}
	check(err)
}

// order reads a number that a test has written.
func order(dir, name string) (number int, ordered bool) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, false
	}
	number, err = strconv.Atoi(string(text))
	return number, err == nil
}

// bear starts a guest, which has a socket to the service as QEMU has one to libvirt, and
// records it.
func bear(dir, uuid, how string) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	check(err)
	theirs := os.NewFile(uintptr(ends[1]), "guest's end") // the service's stays open
	guest := exec.Command("/proc/self/exe")
	guest.Args = []string{guestName + "x86_64", "-name", "guest=" + uuid, "-uuid", uuid, alone}
	guest.ExtraFiles = []*os.File{theirs}
	check(guest.Start())
	check(theirs.Close())
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", guest.Process.Pid))
	check(err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	born, err := os.OpenFile(filepath.Join(dir, bornFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	check(err)
	_, err = fmt.Fprintf(born, "%d %s %d %s\n", guest.Process.Pid, strings.Fields(rest)[19], time.Now().UnixNano(), how)
	check(err)
	check(born.Close())
	go func() { _ = guest.Wait() }()
}

// under runs this program with other arguments as the child of a first process, which ends
// with the child. After SIGTERM one that waits passes the signal on; another ends at once,
// as a shell does, and the child runs on.
func under(manner string, args []string) {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	child := exec.Command("/proc/self/exe")
	child.Args = args
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	check(child.Start())
	go func() {
		<-end
		if manner == "leave" {
			os.Exit(0)
		}
		check(child.Process.Signal(syscall.SIGTERM))
	}()
	_ = child.Wait()
	os.Exit(child.ProcessState.ExitCode())
}

// dumbInit passes signals on to a program, which is its child and in its session, reaps what that leaves
// behind, and exits with its status.
func dumbInit(args []string) {
	if len(args) < 3 || args[0] != "--single-child" || args[1] != "--" {
		check(fmt.Errorf("dumb-init: unexpected arguments %q", args))
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	child := exec.Command(args[2], args[3:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	check(child.Start())
	go func() {
		for s := range signals {
			_ = child.Process.Signal(s) // it may have exited
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR) || err == nil && pid != child.Process.Pid:
			continue
		case err == nil && status.Signaled():
			os.Exit(128 + int(status.Signal()))
		}
		check(err)
		os.Exit(status.ExitStatus())
	}
}
