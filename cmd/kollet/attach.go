package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/kollet/kollet/containers"
)

// attach passes kollet's terminal to a command, if standard input and output are
// a terminal. The returned function restores it.
func attach(ctx context.Context, cmd *containers.Exec, in io.Reader, out io.Writer) (restore func(), err error) {
	from, ok := terminal(in)
	to, ok2 := terminal(out)
	if !ok || !ok2 {
		return func() {}, nil
	}
	// In raw mode keys such as ^C go to the command instead of kollet.
	state, err := term.MakeRaw(int(from.Fd()))
	if err != nil {
		return nil, fmt.Errorf("prepare the terminal: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd.TTY, cmd.Stdin, cmd.Resize = true, from, sizes(ctx, to)
	return func() {
		cancel()
		_ = term.Restore(int(from.Fd()), state) // it may be gone by now
	}, nil
}

func terminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// sizes reports a terminal's size, now and whenever it changes (SIGWINCH,
// tty_ioctl(4)).
func sizes(ctx context.Context, f *os.File) <-chan [2]uint16 {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	changed <- syscall.SIGWINCH
	size := make(chan [2]uint16)
	go func() {
		defer close(size)
		defer signal.Stop(changed)
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			columns, rows, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case size <- [2]uint16{uint16(columns), uint16(rows)}: //nolint:gosec // the kernel keeps them in 16 bits
			}
		}
	}()
	return size
}
