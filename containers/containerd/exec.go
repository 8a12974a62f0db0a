package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// fifoDir has the pipes between a command and its caller, as for ctr.
const fifoDir = "/run/containerd/fifo"

// Exec runs a command inside a running container.
func (e *Engine) Exec(ctx context.Context, id string, cmd containers.Exec) (int, error) {
	if len(cmd.Argv) == 0 {
		return 0, fmt.Errorf("running a command in container %s: the command is empty", id)
	}
	c, err := e.find(ctx, id)
	if err != nil {
		return 0, e.fail(fmt.Sprintf("running %s in container %s", cmd.Argv[0], id), err)
	}
	doing := fmt.Sprintf("running %s in container %s", cmd.Argv[0], nameOf(c))
	task, status, err := e.task(ctx, c.ID)
	if err != nil {
		return 0, e.fail(doing, err)
	}
	if task == nil || status.Status != client.Running {
		return 0, fmt.Errorf("%s: the container is not running; start it first", doing)
	}
	process, err := execProcess(c, int(task.Pid()), cmd)
	if err != nil {
		return 0, e.fail(doing, err)
	}
	code, err := e.exec(ctx, task, process, cmd)
	if err != nil {
		return 0, e.fail(doing, err)
	}
	return code, nil
}

// execProcess returns the container's process with another command.
func execProcess(c ctr.Container, pid int, cmd containers.Exec) (*specs.Process, error) {
	spec, err := ociOf(c)
	if err != nil {
		return nil, err
	}
	p := spec.Process
	p.Args, p.Terminal = cmd.Argv, cmd.TTY
	if cmd.TTY {
		p.Env = append(p.Env, "TERM=xterm")
	}
	for _, key := range slices.Sorted(maps.Keys(cmd.Env)) {
		p.Env = append(p.Env, key+"="+cmd.Env[key]) // overrides an earlier value
	}
	if cmd.User != "" {
		if err := execUser(spec, pid, cmd.User); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// execUser looks up a user in the running container's files.
func execUser(spec *specs.Spec, pid int, user string) error {
	names := spec.Process.Capabilities.Bounding
	root := spec.Root.Path
	spec.Root.Path = host.Real().ProcessPath(pid, "root")
	defer func() { spec.Root.Path = root }()
	ctx, none := context.Background(), &ctr.Container{}
	if err := oci.WithUser(user)(ctx, nil, none, spec); err != nil {
		return fmt.Errorf("user %s: %w", user, err)
	}
	only := spec.Process.User
	if !strings.Contains(user, ":") {
		if err := oci.WithAdditionalGIDs(user)(ctx, nil, none, spec); err != nil {
			return fmt.Errorf("groups of user %s: %w", user, err)
		}
		spec.Process.User.UID, spec.Process.User.GID = only.UID, only.GID
	}
	spec.Process.Capabilities = capabilitySets(only.UID, names)
	return nil
}

func (e *Engine) exec(ctx context.Context, task client.Task, spec *specs.Process, cmd containers.Exec) (int, error) {
	id, err := newID()
	if err != nil {
		return 0, err
	}
	id = id[:32]
	input := newInput(cmd.Stdin)
	creator := cio.NewCreator(streams(input, cmd), cio.WithFIFODir(fifoDir))
	if cmd.Short {
		creator = toFiles(cmd)
	}
	process, err := task.Exec(ctx, id, spec, creator)
	if err != nil {
		return 0, err
	}
	started := false
	defer func() {
		if !started { // the other ends of the pipes are not open
			process.IO().Cancel()
		}
		e.discard(ctx, process, task.ID())
	}()
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended, err := process.Wait(waiting)
	if err != nil {
		return 0, err
	}
	// Not cancelled with ctx, so that there is a process to kill.
	starting, done := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer done()
	if err := process.Start(starting); err != nil {
		return 0, err
	}
	started = true
	if input != nil && !cmd.TTY {
		go func() {
			select {
			case <-input.ended:
				_ = process.CloseIO(waiting, client.WithStdinCloser)
			case <-waiting.Done():
			}
		}()
	}
	if cmd.TTY && cmd.Resize != nil {
		go resize(waiting, process, cmd.Resize)
	}
	select {
	case status := <-ended:
		if err := status.Error(); err != nil {
			return 0, err
		}
		return int(status.ExitCode()), nil
	case <-ctx.Done():
		kill(process)
		<-ended
		return 0, ctx.Err()
	}
}

// discard deletes a command that has exited. The shim then passes on the rest of
// its output and closes the pipes, even if a child of the command holds them.
// Afterwards nothing writes to the caller's writers.
func (e *Engine) discard(ctx context.Context, process client.Process, task string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	// The client's Delete closes the pipes before all of the output is read.
	_, err := e.client.TaskService().DeleteProcess(ctx, &tasks.DeleteProcessRequest{ContainerID: task, ExecID: process.ID()})
	io := process.IO()
	if err != nil { // the rest of the output is lost with the engine
		io.Cancel()
	}
	io.Wait()
	io.Close()
}

// kill kills a command and its process group: otherwise health probes that hang
// would pile up.
func kill(process client.Process) {
	host.KillGroup(int(process.Pid())) // runc starts each command in a session of its own (setsid(2))
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	_ = process.Kill(ctx, syscall.SIGKILL)
}

// input reports when its reader has ended.
type input struct {
	io.Reader
	ended chan struct{}
}

func newInput(r io.Reader) *input {
	if r == nil {
		return nil
	}
	return &input{r, make(chan struct{})}
}

func (i *input) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err != nil && n == 0 {
		select {
		case <-i.ended:
		default:
			close(i.ended)
		}
	}
	if err != nil && n > 0 && errors.Is(err, io.EOF) {
		err = nil // the next call returns it
	}
	return n, err
}

// resize passes on the terminal's size until the command exits.
func resize(ctx context.Context, process client.Process, sizes <-chan [2]uint16) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, open := <-sizes:
			if !open {
				return
			}
			for process.Resize(ctx, uint32(size[0]), uint32(size[1])) != nil {
				select {
				case <-ctx.Done():
					return
				case <-time.After(20 * time.Millisecond): // the command is still starting
				}
			}
		}
	}
}
