package docker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killExec kills a command that nobody waits for any longer, with its process
// group: health probes that hang would pile up otherwise. Docker has no request
// for it, so the process is killed from outside, after a look whether it is the
// right one. It is best effort: the engine may be gone, or count its processes
// in another namespace.
func (e *Engine) killExec(ctx context.Context, exec string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	state, err := e.client.ContainerExecInspect(ctx, exec)
	for err == nil && state.Running && state.Pid == 0 && ctx.Err() == nil { // just being started
		time.Sleep(10 * time.Millisecond)
		state, err = e.client.ContainerExecInspect(ctx, exec)
	}
	if err != nil || !state.Running || state.Pid <= 1 {
		return
	}
	process, err := unix.PidfdOpen(state.Pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(process)
	cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", state.Pid))
	if err != nil || !bytes.Contains(cgroup, []byte(state.ContainerID)) {
		return
	}
	// It still ran after the descriptor was opened: so the descriptor is its own.
	if again, err := e.client.ContainerExecInspect(ctx, exec); err != nil || !again.Running || again.Pid != state.Pid {
		return
	}
	// runc starts each command in a session of its own (setsid(2)).
	if group, err := unix.Getpgid(state.Pid); err == nil && group == state.Pid {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	_ = unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0)
}
