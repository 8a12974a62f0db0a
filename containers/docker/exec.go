package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/kollet/kollet/containers"
)

// Exec runs a command inside a running container.
func (e *Engine) Exec(ctx context.Context, id string, cmd containers.Exec) (int, error) {
	if len(cmd.Argv) == 0 {
		return 0, fmt.Errorf("running a command in container %s: the command is empty", id)
	}
	doing := func() string { return fmt.Sprintf("running %s in container %s", cmd.Argv[0], e.nameOf(ctx, id)) }
	options := container.ExecOptions{
		Cmd: cmd.Argv, User: cmd.User, Tty: cmd.TTY,
		AttachStdin: cmd.Stdin != nil, AttachStdout: true, AttachStderr: true,
	}
	for _, key := range slices.Sorted(maps.Keys(cmd.Env)) {
		options.Env = append(options.Env, key+"="+cmd.Env[key])
	}
	created, err := e.client.ContainerExecCreate(ctx, id, options)
	if err != nil {
		return 0, e.fail(doing(), err)
	}
	attached, err := e.attach(ctx, created.ID, container.ExecAttachOptions{Tty: cmd.TTY})
	if err != nil {
		e.killExec(ctx, created.ID)
		return 0, e.fail(doing(), err)
	}
	defer attached.Close()

	ended, end := context.WithCancel(ctx)
	defer end()
	if cmd.Stdin != nil {
		// A blocked Read outlives the command; the caller has to end it. With a
		// TTY, the end of input is not passed on (users type ^D): Docker would
		// discard what the command still prints.
		go func() {
			_, _ = io.Copy(attached.Conn, cmd.Stdin)
			if !cmd.TTY {
				_ = attached.CloseWrite()
			}
		}()
	}
	if cmd.TTY && cmd.Resize != nil {
		go e.resize(ended, created.ID, cmd.Resize)
	}
	if cmd.Short {
		limit := outputLimit(containers.MostOutput)
		cmd.Stdout, cmd.Stderr = limitedWriter{orDiscard(cmd.Stdout), &limit}, limitedWriter{orDiscard(cmd.Stderr), &limit}
	}
	held := &heldWriter{prefix: e.dialect.Refusal, next: orDiscard(cmd.Stdout)}
	if e.dialect.RefusesOnStderr && !cmd.TTY {
		held.next = orDiscard(cmd.Stderr)
		cmd.Stdout, cmd.Stderr = orDiscard(cmd.Stdout), held
	} else {
		cmd.Stdout = held
	}
	err = copyOutput(ctx, attached, cmd)
	var status int
	if err == nil {
		status, err = e.execStatus(ctx, created.ID, held)
	}
	if err != nil {
		e.killExec(ctx, created.ID)
		return 0, e.fail(doing(), err)
	}
	return status, nil
}

// attach starts a command. While the client waits for the engine's answer to this request, it
// does not look at ctx (docker/client: hijack.go).
func (e *Engine) attach(ctx context.Context, exec string, options container.ExecAttachOptions) (types.HijackedResponse, error) {
	type answer struct {
		attached types.HijackedResponse
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		attached, err := e.client.ContainerExecAttach(ctx, exec, options)
		answers <- answer{attached, err}
	}()
	select {
	case a := <-answers:
		return a.attached, a.err
	case <-ctx.Done():
		go func() {
			if a := <-answers; a.err == nil {
				a.attached.Close()
			}
		}()
		return types.HijackedResponse{}, ctx.Err()
	}
}

// copyOutput copies until the command's output ends or ctx does.
func copyOutput(ctx context.Context, attached types.HijackedResponse, cmd containers.Exec) (err error) {
	done := make(chan error, 1)
	go func() {
		var err error
		if cmd.TTY {
			_, err = io.Copy(cmd.Stdout, attached.Reader)
		} else {
			_, err = stdcopy.StdCopy(cmd.Stdout, orDiscard(cmd.Stderr), attached.Reader)
		}
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		attached.Close()
		<-done //nolint:errcheck // ctx has ended; wait only so that nothing is written to the caller's writers after Exec returns
		err = ctx.Err()
	}
	return err
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// outputLimit is how many bytes a command may still print.
type outputLimit int

// limitedWriter fails when the limit, which it shares with another one that is used
// by the same goroutine, is reached.
type limitedWriter struct {
	next  io.Writer
	limit *outputLimit
}

func (w limitedWriter) Write(p []byte) (int, error) {
	if len(p) > int(*w.limit) {
		return 0, containers.ErrTooMuchOutput
	}
	*w.limit -= outputLimit(len(p))
	return w.next.Write(p)
}

// heldWriter holds back output that begins like the message that the engine writes if it could
// not start a command, until it is known whether the command wrote it.
type heldWriter struct {
	prefix string
	next   io.Writer
	open   bool // nothing is held back anymore
	held   bytes.Buffer
}

// maxHeld is more than the length of any such message, in bytes.
const maxHeld = 16 << 10

func (w *heldWriter) Write(p []byte) (int, error) {
	if w.open {
		return w.next.Write(p)
	}
	w.held.Write(p)
	seen := min(w.held.Len(), len(w.prefix))
	if string(w.held.Bytes()[:seen]) != w.prefix[:seen] || w.held.Len() > maxHeld {
		if err := w.release(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// release writes what was held back; later writes are passed on directly.
func (w *heldWriter) release() error {
	w.open = true
	_, err := w.held.WriteTo(w.next)
	return err
}

// execStatus waits until the engine knows a command's exit status: a command that
// has closed its output may still be running.
func (e *Engine) execStatus(ctx context.Context, exec string, output *heldWriter) (int, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		state, err := e.client.ContainerExecInspect(ctx, exec)
		if err != nil {
			return 0, err
		}
		if !state.Running {
			// A command that never ran has the exit status that a shell would
			// give, but no process.
			neverRan := state.Pid == 0 && (state.ExitCode == 126 || state.ExitCode == 127)
			if neverRan && e.dialect.refuses(output.held.String()) {
				return 0, errors.New("the command could not be started: " + output.held.String())
			}
			return state.ExitCode, output.release()
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// resize passes on the terminal's size until the command exits. The engine returns
// an error before the command is running, so the last size is sent again.
func (e *Engine) resize(ctx context.Context, exec string, sizes <-chan [2]uint16) {
	var size [2]uint16
	begun := time.Now()
	retry := time.NewTimer(0)
	<-retry.C
	for {
		select {
		case <-ctx.Done():
			return
		case s, open := <-sizes:
			if !open {
				sizes = nil
				continue
			}
			size = s
		case <-retry.C:
		}
		err := e.client.ContainerExecResize(ctx, exec, container.ResizeOptions{Width: uint(size[0]), Height: uint(size[1])})
		if err != nil || e.dialect.LosesSizes && time.Since(begun) < 2*time.Second {
			retry.Reset(20 * time.Millisecond)
		}
	}
}
