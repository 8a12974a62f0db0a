package main

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// guestName is the name by which guests are recognised.
const guestName = "qemu-system-"

// helpers are processes that serve a guest, each in another way and with a name that says
// nothing. Their arguments are the guest's UUID and process. They end with the guest.
var helpers = map[string]func(){
	"wire": func() { // has the other end of the guest's socket
		_, _ = io.Copy(io.Discard, os.NewFile(descriptor, "socket"))
	},
	"pane": func() { // shares memory with it
		share()
		awaitGuest()
	},
	"clerk": awaitGuest, // is a daemon, which nothing connects to the guest
}

// descriptor is the first one that a guest or helper inherits: the end of a socket. The
// next one is the memory.
const descriptor = 3

// host starts this program as a guest with a UUID, and the guest's helpers. All of them
// outlive it.
func host(uuid string) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	check(err)
	memory, err := os.CreateTemp("/dev/shm", "guest")
	check(err)
	check(os.Remove(memory.Name()))
	check(memory.Truncate(int64(os.Getpagesize())))
	guest := inherit(os.NewFile(uintptr(ends[0]), "guest's end"), memory)
	guest.Args = []string{guestName + "x86_64", "-name", "guest=" + uuid, "-uuid", uuid}
	check(guest.Start())
	pid := strconv.Itoa(guest.Process.Pid)
	wire := inherit(os.NewFile(uintptr(ends[1]), "helper's end"))
	wire.Args = []string{"wire", uuid, pid}
	check(wire.Start())
	for _, file := range append(guest.ExtraFiles[:1], wire.ExtraFiles...) {
		check(file.Close())
	}
	pane := inherit(os.Stdin, memory)
	pane.Args = []string{"pane", uuid, pid}
	check(pane.Start())
	check(exec.Command("/proc/self/exe", "leave-behind", "clerk", uuid, pid).Run())
}

// impostor starts a guest as a user without privileges, as one that took over its QEMU
// could change it: its command line names a program that this user wrote.
func impostor(program, uuid string) {
	self, err := os.ReadFile("/proc/self/exe")
	check(err)
	check(os.WriteFile(program, self, 0o755))
	check(os.Chown(program, nobody, nobody))
	guest := exec.Command("/proc/self/exe")
	guest.Args = []string{program, "-name", "guest=" + uuid, "-uuid", uuid, alone}
	guest.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}}
	check(guest.Start())
	go func() { _ = guest.Wait() }()
}

const nobody = 65534

// confess notes that an impostor's program was run to ask it something.
func confess() {
	if len(os.Args) > 1 && os.Args[1] != "-name" {
		check(os.WriteFile(os.Args[0]+".asked", []byte(strconv.Itoa(os.Getuid())), 0o644))
		os.Exit(0)
	}
}

func inherit(files ...*os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.ExtraFiles = files
	return cmd
}

// alone is the last argument of a guest without helpers.
const alone = "-nodefaults"

func guest(isAlone bool) {
	if !isAlone {
		share()
	}
	time.Sleep(time.Hour)
}

func share() {
	_, err := syscall.Mmap(descriptor+1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	check(err)
}

func awaitGuest() {
	pid, err := strconv.Atoi(os.Args[2])
	check(err)
	for syscall.Kill(pid, 0) == nil {
		time.Sleep(20 * time.Millisecond)
	}
}
