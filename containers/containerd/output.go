package containerd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/kollet/kollet/containers"
)

func streams(in *input, cmd containers.Exec) cio.Opt {
	return func(s *cio.Streams) {
		if in != nil {
			s.Stdin = in
		}
		both := &sync.Mutex{}
		s.Stdout, s.Stderr, s.Terminal = &shared{both, orDiscard(cmd.Stdout)}, &shared{both, orDiscard(cmd.Stderr)}, cmd.TTY
	}
}

// shared is one of two writers, possibly the same, that are used by two goroutines.
type shared struct {
	both *sync.Mutex
	to   io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.both.Lock()
	defer s.both.Unlock()
	return s.to.Write(p)
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// files receive the output of a short command. Unlike a pipe, the shim opens them
// without waiting for a reader. If the reader of a pipe was killed, the shim waits
// for 30 seconds and does not even notice that its container exited.
type files struct {
	dir string
	cmd containers.Exec
}

func toFiles(cmd containers.Exec) cio.Creator {
	return func(string) (cio.IO, error) {
		if err := os.MkdirAll(fifoDir, 0o700); err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp(fifoDir, "exec-")
		if err != nil {
			return nil, err
		}
		f := &files{dir, cmd}
		for _, name := range []string{f.out(), f.err()} {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				f.Close()
				return nil, err
			}
		}
		return f, nil
	}
}

func (f *files) out() string { return filepath.Join(f.dir, "stdout") }
func (f *files) err() string { return filepath.Join(f.dir, "stderr") }

// Config returns the paths that the shim writes to. They are not URIs, as for
// pipes; the shim checks the type of each file (pkg/process/io.go: copyPipes).
func (f *files) Config() cio.Config { return cio.Config{Stdout: f.out(), Stderr: f.err()} }

// Cancel does nothing: there is nothing to interrupt.
func (f *files) Cancel() {}

// tooLarge reports whether a command has printed more than it may.
func (f *files) tooLarge() bool {
	var printed int64
	for _, name := range []string{f.out(), f.err()} {
		if info, err := os.Stat(name); err == nil {
			printed += info.Size()
		}
	}
	return printed > containers.MostOutput
}

// Wait passes on the output. The command was deleted, so the output is complete.
func (f *files) Wait() {
	_ = errors.Join(pass(f.out(), f.cmd.Stdout), pass(f.err(), f.cmd.Stderr)) // as with pipes, the caller's writer reports its own errors
}

func pass(name string, to io.Writer) error {
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(orDiscard(to), io.LimitReader(from, containers.MostOutput))
	return err
}

// Close removes the files.
func (f *files) Close() error { return os.RemoveAll(f.dir) }
