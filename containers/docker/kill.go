package docker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
)

// killExec kills a command and its process group when its caller no longer waits
// for it: otherwise health probes that hang would pile up. Docker has no request
// for this, so the process is killed from outside after a check that it is the
// right one. This is best effort: the engine may be gone, or may count its
// processes in another namespace.
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
	process, err := host.Open(state.Pid)
	if err != nil {
		return
	}
	defer process.Close()
	cgroups, err := host.Real().Membership(state.Pid)
	if err != nil || !slices.ContainsFunc(slices.Collect(maps.Values(cgroups)), func(path string) bool { return strings.Contains(path, state.ContainerID) }) {
		return
	}
	// The command was still running after the pidfd was opened, so the pidfd is
	// that of the command.
	if again, err := e.client.ContainerExecInspect(ctx, exec); err != nil || !again.Running || again.Pid != state.Pid {
		return
	}
	host.Real().KillGroup(state.Pid)
	_ = process.Signal(unix.SIGKILL)
}
