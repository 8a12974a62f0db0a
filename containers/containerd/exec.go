package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	accounts "github.com/moby/sys/user"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// fifoDir has the pipes between a command and its caller, as for ctr.
const fifoDir = "/run/containerd/fifo"

// outputInterval is how often the size of a short command's output is checked.
const outputInterval = 20 * time.Millisecond

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
	now, err := e.look(ctx, c.ID)
	if err != nil {
		return 0, e.fail(doing, err)
	}
	if !now.is(client.Running) {
		return 0, fmt.Errorf("%s: the container is not running; start it first", doing)
	}
	spec, err := execProcess(c, now.pid, cmd)
	if err != nil {
		return 0, e.fail(doing, err)
	}
	code, err := e.exec(ctx, c.ID, spec, cmd)
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
		if err := execUser(p, pid, cmd.User); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// mostNames is more than the size of any file of users or groups, in bytes.
const mostNames = 1 << 20

// execUser looks up a user in the running container's files. The container can
// replace them, so package oci, which opens them as they are, does not read them.
func execUser(process *specs.Process, pid int, name string) error {
	var files [2]io.Reader
	for i, path := range []string{"/etc/passwd", "/etc/group"} {
		data, err := host.Real().ReadInside(pid, path, mostNames)
		if err == nil {
			files[i] = bytes.NewReader(data)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("user %s: %w", name, err)
		}
	}
	found, err := accounts.GetExecUser(name, nil, files[0], files[1])
	if err != nil {
		return fmt.Errorf("user %s: %w", name, err)
	}
	gid := uint32(found.Gid)                                                                   //nolint:gosec // runc refuses numbers that are out of range
	process.User = specs.User{UID: uint32(found.Uid), GID: gid, AdditionalGids: []uint32{gid}} //nolint:gosec // as above
	for _, group := range found.Sgids {
		process.User.AdditionalGids = append(process.User.AdditionalGids, uint32(group)) //nolint:gosec // as above
	}
	process.Capabilities = capabilitySets(process.User.UID, process.Capabilities.Bounding)
	return nil
}

func (e *Engine) exec(ctx context.Context, container string, spec *specs.Process, cmd containers.Exec) (int, error) {
	id, err := newID()
	if err != nil {
		return 0, err
	}
	command := e.task(container, 0)
	command.exec = id[:32]
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	input := newInput(cmd.Stdin)
	if input != nil && cmd.TTY { // the shim hangs up a terminal whose input ends (CopyConsole in containerd's runc shim)
		input.held = waiting.Done()
	}
	creator := cio.NewCreator(streams(input, cmd), cio.WithFIFODir(fifoDir))
	if cmd.Short {
		creator = toFiles(cmd)
	}
	pipes, err := creator(command.exec)
	if err != nil {
		return 0, err
	}
	if err := command.add(ctx, spec, pipes.Config()); err != nil {
		pipes.Cancel()
		pipes.Wait()
		pipes.Close()
		return 0, err
	}
	started := false
	defer func() {
		if !started { // the other ends of the pipes are not open
			pipes.Cancel()
		}
		e.discard(ctx, command, pipes)
	}()
	exit := command.wait(waiting)
	// Not cancelled with ctx, so that there is a process to kill.
	starting, done := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer done()
	if err := command.start(starting); err != nil {
		return 0, err
	}
	started = true
	if input != nil && !cmd.TTY {
		go func() {
			select {
			case <-input.ended:
				command.closeInput(waiting)
			case <-waiting.Done():
			}
		}()
	}
	if cmd.TTY && cmd.Resize != nil {
		go resize(waiting, command, cmd.Resize)
	}
	return awaitCommand(ctx, command, exit, pipes)
}

// awaitCommand waits until a command exits, and returns its exit status. It kills the command
// if ctx ends, or if it prints too much.
func awaitCommand(ctx context.Context, command task, exit <-chan client.ExitStatus, pipes cio.IO) (int, error) {
	output, _ := pipes.(*files)
	full := time.NewTicker(outputInterval)
	defer full.Stop()
	for {
		select {
		case status := <-exit:
			if output != nil && output.tooLarge() {
				return 0, containers.ErrTooMuchOutput
			}
			if err := status.Error(); err != nil {
				return 0, err
			}
			return int(status.ExitCode()), nil
		case <-full.C:
			if output != nil && output.tooLarge() {
				kill(command)
				<-exit
				return 0, containers.ErrTooMuchOutput
			}
		case <-ctx.Done():
			kill(command)
			select {
			case <-exit:
				return 0, ctx.Err()
			case <-time.After(shimTime):
				return 0, fmt.Errorf("%w; %w", ctx.Err(), silent(command.container))
			}
		}
	}
}

// discard deletes a command that has exited. The shim then passes on the rest of
// its output and closes the pipes, even if a child of the command holds them.
// Afterwards nothing writes to the caller's writers.
func (e *Engine) discard(ctx context.Context, command task, pipes cio.IO) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	_, err := command.tasks.DeleteProcess(ctx, &tasks.DeleteProcessRequest{ContainerID: command.container, ExecID: command.exec})
	if err != nil { // the rest of the output is lost with the engine
		pipes.Cancel()
	}
	pipes.Wait()
	pipes.Close()
}

// kill kills a command in a container and its process group: otherwise health probes that hang
// would pile up. A command that has exited unnoticed may have left its number to a process
// of another container or of the host, which is not killed.
func kill(command task) {
	if cgroups, err := host.Real().Membership(command.pid); err == nil && cgroups.Names(command.container) {
		host.Real().KillGroup(command.pid)
	}
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	_ = command.kill(ctx, syscall.SIGKILL, false)
}

// input reports when its reader has ended.
type input struct {
	io.Reader
	ended chan struct{}
	held  <-chan struct{} // if not nil, Read reports the end only when this is closed
}

func newInput(r io.Reader) *input {
	if r == nil {
		return nil
	}
	return &input{Reader: r, ended: make(chan struct{})}
}

func (i *input) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err != nil && n == 0 {
		select {
		case <-i.ended:
		default:
			close(i.ended)
		}
		if i.held != nil {
			<-i.held
		}
	}
	if err != nil && n > 0 && errors.Is(err, io.EOF) {
		err = nil // the next call returns it
	}
	return n, err
}

// resize passes on the terminal's size until the command exits.
func resize(ctx context.Context, command task, sizes <-chan [2]uint16) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, open := <-sizes:
			if !open {
				return
			}
			for command.resize(ctx, size) != nil {
				select {
				case <-ctx.Done():
					return
				case <-time.After(20 * time.Millisecond): // the command is still starting
				}
			}
		}
	}
}
