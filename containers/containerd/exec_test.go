package containerd

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// A command on a terminal outlives its input: the shim would hang up the terminal.
func TestInputOfATerminalDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exited := make(chan struct{})
		in := newInput(strings.NewReader("hello\n"))
		in.held = exited
		var read string
		go func() {
			all, _ := io.ReadAll(in)
			read = string(all) + "end"
		}()
		synctest.Wait()
		if read != "" {
			t.Errorf("the input ended before the command: %q", read)
		}
		select {
		case <-in.ended:
		default:
			t.Error("the end of the input was not noticed")
		}
		close(exited)
		synctest.Wait()
		if read != "hello\nend" {
			t.Errorf("read %q", read)
		}
	})
}
