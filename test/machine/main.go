package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/kollet/kollet/test/machine/bounded"
)

// The program runs three times: as the user started it, as init of the new machine, and
// inside. These variables distinguish them and have the path of the machine's files.
const (
	stageVar = "KOLLET_MACHINE"
	dirVar   = "KOLLET_MACHINE_DIR"
	groupVar = "KOLLET_MACHINE_CGROUP"
	netVar   = "KOLLET_MACHINE_NET"

	// v1: only cgroups of version 1. Test runs set it.
	cgroupsVar = "KOLLET_MACHINE_CGROUPS"

	stageInit   = "init"
	stageInside = "inside"
)

// Option changes what Enter isolates.
type Option func(*exec.Cmd)

// HostNetwork keeps the host's network, for programs that download files.
func HostNetwork() Option {
	return func(c *exec.Cmd) {
		c.SysProcAttr.Cloneflags &^= syscall.CLONE_NEWNET
		c.Env = append(c.Env, netVar+"=host")
	}
}

// Main runs the tests of a package inside a new machine. TestMain must call it first; m is
// the *testing.M. It does not return.
func Main(m interface{ Run() int }, options ...Option) {
	Enter(options...)
	os.Exit(m.Run())
}

// Enter starts the program again inside a new machine, see the package's documentation,
// and returns there. It must be the first call of the program, because everything before
// it runs twice.
func Enter(options ...Option) {
	if filepath.Base(os.Args[0]) == bounded.Name {
		os.Exit(bounded.Main(os.Args))
	}
	var status int
	var err error
	switch os.Getenv(stageVar) {
	case stageInside:
		return
	case stageInit:
		status, err = runInit()
	default:
		status, err = runOutside(options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		status = 1
	}
	os.Exit(status)
}

// Inside reports whether this process is inside a machine that Enter created.
func Inside() bool { return os.Getenv(stageVar) == stageInside }

// CgroupParent returns the parent of the containers' cgroups, below the root of every
// hierarchy. It is removed at the end.
func CgroupParent() string { return os.Getenv(groupVar) }

// runOutside starts the program as init of a new machine and waits for it.
func runOutside(options []Option) (status int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("namespaces and daemons need root; run it again with sudo")
	}
	own, err := claim()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, own.release()) }()

	// The kernel sends Pdeathsig when the thread that forked ends, not the
	// process: prctl(2), PR_SET_PDEATHSIG.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	init := exec.Command("/proc/self/exe", os.Args[1:]...)
	init.Args[0] = os.Args[0]
	init.Stdin, init.Stdout, init.Stderr = os.Stdin, os.Stdout, os.Stderr
	init.Env = append(os.Environ(), stageVar+"="+stageInit, dirVar+"="+own.dir, groupVar+"="+own.group)
	init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig: syscall.SIGKILL,
	}
	for _, option := range options {
		option(init)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	if err := init.Start(); err != nil {
		return 0, fmt.Errorf("start init of a new machine: %w", err)
	}
	go func() {
		for s := range signals {
			init.Process.Signal(s)
		}
	}()
	err = init.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("wait for the machine: %w", err)
	}
	return exitStatus(init.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// forwarded signals are passed to the program inside. go test sends SIGQUIT to get the
// stacks of a test that hangs.
var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP}

// exitStatus returns the exit status that a shell would report for a process.
func exitStatus(w syscall.WaitStatus) int {
	if w.Signaled() {
		return 128 + int(w.Signal())
	}
	return w.ExitStatus()
}
