package containerd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	types "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
)

// task is a container's task, which is its first process, or a command in it. Those of
// containerd's client are not used, because they ask containerd again for what is known here:
// to start a container they load it four times.
type task struct {
	tasks     tasks.TasksClient
	container string
	exec      string // id of the command; empty: the first process
	pid       int    // 0: not known yet
}

func (e *Engine) task(container string, pid int) task {
	return task{tasks: e.client.TaskService(), container: container, pid: pid}
}

func (t *task) start(ctx context.Context) error {
	answer, err := t.tasks.Start(ctx, &tasks.StartRequest{ContainerID: t.container, ExecID: t.exec})
	if err != nil {
		return errgrpc.ToNative(err)
	}
	t.pid = int(answer.Pid)
	return nil
}

// kill sends a signal; with all, to everything in the container's cgroup.
func (t task) kill(ctx context.Context, sign syscall.Signal, all bool) error {
	_, err := t.tasks.Kill(ctx, &tasks.KillRequest{ContainerID: t.container, ExecID: t.exec, Signal: uint32(sign), All: all}) //nolint:gosec // signals are small numbers
	return errgrpc.ToNative(err)
}

// add adds a command to a task, and does not start it.
func (t task) add(ctx context.Context, spec *specs.Process, to cio.Config) error {
	encoded, err := typeurl.MarshalAnyToProto(spec)
	if err != nil {
		return err
	}
	_, err = t.tasks.Exec(ctx, &tasks.ExecProcessRequest{
		ContainerID: t.container, ExecID: t.exec, Spec: encoded,
		Terminal: to.Terminal, Stdin: to.Stdin, Stdout: to.Stdout, Stderr: to.Stderr,
	})
	return errgrpc.ToNative(err)
}

// closeInput ends a command's input. One that has exited needs none.
func (t task) closeInput(ctx context.Context) {
	_, _ = t.tasks.CloseIO(ctx, &tasks.CloseIORequest{ContainerID: t.container, ExecID: t.exec, Stdin: true})
}

// resize passes on the size of a command's terminal: columns and rows.
func (t task) resize(ctx context.Context, size [2]uint16) error {
	_, err := t.tasks.ResizePty(ctx, &tasks.ResizePtyRequest{ContainerID: t.container, ExecID: t.exec, Width: uint32(size[0]), Height: uint32(size[1])})
	return errgrpc.ToNative(err)
}

func (t task) resume(ctx context.Context) error {
	_, err := t.tasks.Resume(ctx, &tasks.ResumeTaskRequest{ContainerID: t.container})
	return errgrpc.ToNative(err)
}

// wait asks for the exit. It comes once, or an error, also if ctx ends.
func (t task) wait(ctx context.Context) <-chan client.ExitStatus {
	exit := make(chan client.ExitStatus, 1)
	go func() {
		answer, err := t.tasks.Wait(ctx, &tasks.WaitRequest{ContainerID: t.container, ExecID: t.exec})
		if err != nil {
			exit <- *client.NewExitStatus(client.UnknownExitStatus, time.Time{}, errgrpc.ToNative(err))
			return
		}
		exit <- *client.NewExitStatus(answer.ExitStatus, answer.ExitedAt.AsTime(), nil)
	}()
	return exit
}

// state is the state of a container's task. Status is empty if there is no task.
type state struct {
	client.Status
	pid int
}

func stateOf(p *types.Process) state {
	return state{pid: int(p.Pid), Status: client.Status{
		Status:     client.ProcessStatus(strings.ToLower(p.Status.String())),
		ExitStatus: p.ExitStatus,
		ExitTime:   p.ExitedAt.AsTime(),
	}}
}

func (s state) exists() bool { return s.Status.Status != "" }

func (s state) is(status client.ProcessStatus) bool { return s.Status.Status == status }

func (s state) paused() bool { return s.is(client.Paused) || s.is(client.Pausing) }

func (s state) alive() bool { return s.is(client.Running) || s.paused() }

// exited returns the state of a task after its exit. A task that does not exist any longer
// has exited: the restart monitor deletes tasks too.
func (s state) exited(exit client.ExitStatus) (state, error) {
	code, at, err := exit.Result()
	if errdefs.IsNotFound(err) {
		return state{}, nil
	}
	if err != nil {
		return s, err
	}
	return state{client.Status{Status: client.Stopped, ExitStatus: code, ExitTime: at}, s.pid}, nil
}

// shimTime is how long a shim may take to answer. If the caller of an Exec is
// killed, the shim waits 30 seconds for a reader of the command's output. Meanwhile that
// of containerd 1.6 does not answer (pkg/process/exec.go: start), and that of 2.4 does not say
// that the container has exited (cmd/containerd-shim-runc-v2/task/service.go: processExits).
const shimTime = 45 * time.Second

func silent(id string) error {
	return fmt.Errorf("its shim (containerd-shim-runc-v2 -id %s) has not answered for %v; kill that process", id, shimTime)
}

// look returns the state of a container's task. containerd asks the task's shim, and
// after two seconds without an answer returns the state Unknown, on which no
// decision may be based.
func (e *Engine) look(ctx context.Context, id string) (state, error) {
	for until := time.Now().Add(shimTime); ; {
		answer, err := e.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id})
		if err != nil {
			err = errgrpc.ToNative(err)
			if errdefs.IsNotFound(err) {
				err = nil
			}
			return state{}, err
		}
		if now := stateOf(answer.Process); !now.is(client.Unknown) {
			return now, nil
		}
		if time.Now().After(until) {
			return state{}, silent(id)
		}
		if err := e.endStuckStart(ctx, id); err != nil {
			return state{}, err
		}
		if err := pause(ctx); err != nil {
			return state{}, err
		}
	}
}

// lookAtAll returns the states of the tasks of several containers, as far as one question
// answers that: containerd leaves out a task whose shim cannot be reached, and a shim that is
// silent has to be asked again.
func (e *Engine) lookAtAll(ctx context.Context, all []ctr.Container) (map[string]state, error) {
	if len(all) < 2 {
		return nil, nil
	}
	answer, err := e.client.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, errgrpc.ToNative(err)
	}
	states := map[string]state{}
	for _, p := range answer.Tasks {
		if now := stateOf(p); !now.is(client.Unknown) {
			states[p.ID] = now
		}
	}
	return states, nil
}

// destroy kills the processes of a task and deletes it.
func (e *Engine) destroy(ctx context.Context, id string, now state) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	task := e.task(id, now.pid)
	if now.is(client.Stopped) { // what it has left
		if err := task.kill(ctx, syscall.SIGKILL, true); err != nil && !gone(err) {
			return err
		}
	} else {
		exit := task.wait(ctx)
		if err := task.killAll(ctx); err != nil {
			return err
		}
		if err := (<-exit).Error(); err != nil && !gone(err) {
			return err
		}
	}
	_, err := task.tasks.Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	return errgrpc.ToNative(err)
}

// killAll kills the first process of a task, which may have been moved out of the
// container's cgroup, and what is in that.
func (t task) killAll(ctx context.Context) error {
	for _, all := range []bool{false, true} {
		if err := t.kill(ctx, syscall.SIGKILL, all); err != nil && !gone(err) {
			return err
		}
	}
	return t.killFirst()
}

// killFirst kills the first process of a task that uses the host's pid namespace. Since
// version 1.2 runc kills only what is in the container's cgroup then
// (libcontainer/container_linux.go: Signal).
func (t task) killFirst() error {
	first, err := unix.PidfdOpen(t.pid, 0)
	if err != nil { // it has exited
		return nil
	}
	defer unix.Close(first)
	// The pid may be that of another process by now: this one's parent is its shim.
	shim, err := host.Real().Parent(t.pid)
	if err != nil {
		return nil
	}
	if line, err := host.Real().CommandLine(shim); err != nil || !slices.Contains(line, t.container) {
		return nil
	}
	if err := unix.PidfdSendSignal(first, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", t.pid, err)
	}
	return nil
}

// gone reports whether an error is that of a signal to an exited process.
func gone(err error) bool { return errdefs.IsNotFound(err) || errdefs.IsFailedPrecondition(err) }
