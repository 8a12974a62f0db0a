package containerd

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Several callers may ask at once whether a log is being written, and none is taken for the
// writer by another.
func TestWriting(t *testing.T) {
	e := &Engine{root: t.TempDir()}
	if e.writing("c") {
		t.Error("a container that never ran is being written")
	}
	if err := os.MkdirAll(e.dir("c"), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(e.dir("c"), writingFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 2000 {
				if e.writing("c") {
					t.Error("nobody writes")
					return
				}
			}
		})
	}
	callers.Wait()
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_RDLCK}); err != nil {
		t.Fatal(err)
	}
	if !e.writing("c") {
		t.Error("the writer is not seen")
	}
	file.Close()
	if e.writing("c") {
		t.Error("the writer is seen after its end")
	}
}
