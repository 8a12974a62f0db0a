package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/kollet/kollet/containers"
)

// Exec runs a command inside a running container.
func (e *Engine) Exec(ctx context.Context, id string, cmd containers.Exec) (int, error) {
	if len(cmd.Argv) == 0 {
		return 0, fmt.Errorf("running a command in container %s: it is empty", id)
	}
	doing := fmt.Sprintf("running %s in container %s", cmd.Argv[0], e.nameOf(ctx, id))
	options := container.ExecOptions{
		Cmd: cmd.Argv, User: cmd.User, Tty: cmd.TTY,
		AttachStdin: cmd.Stdin != nil, AttachStdout: true, AttachStderr: true,
	}
	for _, key := range slices.Sorted(maps.Keys(cmd.Env)) {
		options.Env = append(options.Env, key+"="+cmd.Env[key])
	}
	created, err := e.client.ContainerExecCreate(ctx, id, options)
	if err != nil {
		return 0, e.fail(doing, err)
	}
	attached, err := e.client.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{Tty: cmd.TTY})
	if err != nil {
		e.killExec(ctx, created.ID)
		return 0, e.fail(doing, err)
	}
	defer attached.Close()

	ended, end := context.WithCancel(ctx)
	defer end()
	if cmd.Stdin != nil {
		// A Read that blocks outlives the command; its owner has to end it.
		go func() {
			_, _ = io.Copy(attached.Conn, cmd.Stdin)
			_ = attached.CloseWrite()
		}()
	}
	if cmd.TTY && cmd.Resize != nil {
		go e.resize(ended, created.ID, cmd.Resize)
	}
	refusal, err := copyOutput(ctx, attached, cmd)
	if err != nil {
		e.killExec(ctx, created.ID)
		return 0, e.fail(doing, err)
	}
	status, err := e.execStatus(ctx, created.ID, refusal)
	if err != nil {
		e.killExec(ctx, created.ID)
		return 0, e.fail(doing, err)
	}
	return status, nil
}

// copyOutput copies until the command's output ends or ctx does. What the
// engine says in place of a command that it could not start is returned.
func copyOutput(ctx context.Context, attached types.HijackedResponse, cmd containers.Exec) (refusal string, err error) {
	stdout := &refusalWriter{next: orDiscard(cmd.Stdout)}
	done := make(chan error, 1)
	go func() {
		var err error
		if cmd.TTY {
			_, err = io.Copy(stdout, attached.Reader)
		} else {
			_, err = stdcopy.StdCopy(stdout, orDiscard(cmd.Stderr), attached.Reader)
		}
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		attached.Close()
		<-done // nobody writes to the caller's writers once Exec has returned
		err = ctx.Err()
	}
	return stdout.refusal.String(), err
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// refused begins what the engine writes to a command's standard output when it
// could not start it.
const refused = "OCI runtime exec failed"

// refusalWriter keeps such a message away from the caller's output.
type refusalWriter struct {
	next    io.Writer
	begun   bool
	refusal bytes.Buffer
}

func (w *refusalWriter) Write(p []byte) (int, error) {
	if w.refusal.Len() > 0 || !w.begun && bytes.HasPrefix(p, []byte(refused)) {
		return w.refusal.Write(p)
	}
	w.begun = true
	return w.next.Write(p)
}

// execStatus waits until the engine knows how a command ended: one that closed
// its output may still run.
func (e *Engine) execStatus(ctx context.Context, exec, refusal string) (int, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		state, err := e.client.ContainerExecInspect(ctx, exec)
		if err != nil {
			return 0, err
		}
		if !state.Running {
			// A command that never ran has no process, whatever its status says.
			if state.Pid == 0 || refusal != "" {
				return 0, errors.New(strings.TrimSpace(refusal + " (could not be started)"))
			}
			return state.ExitCode, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// resize passes the terminal's size on until the command ends. The engine
// refuses while the command is not running yet, so the last size is repeated.
func (e *Engine) resize(ctx context.Context, exec string, sizes <-chan [2]uint16) {
	var size [2]uint16
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
		if e.client.ContainerExecResize(ctx, exec, container.ResizeOptions{Width: uint(size[0]), Height: uint(size[1])}) != nil {
			retry.Reset(20 * time.Millisecond)
		}
	}
}
