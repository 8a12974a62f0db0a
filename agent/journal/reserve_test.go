package journal

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// allocated returns how many bytes a file takes up on disk; -1: there is no such file.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// What is reserved can be used until the journal has ended, also by a recovery, and
// does not show in the journal.
func TestReserve(t *testing.T) {
	dir := t.TempDir()
	j := create(t, dir, 7)
	reserved := func(when string, want bool) {
		t.Helper()
		if got := allocated(t, path(dir, 7)) >= recordsReserve; got != want {
			t.Errorf("%s: %d bytes are allocated for the journal", when, allocated(t, path(dir, 7)))
		}
	}
	reserved("created", false)
	if err := j.Reserve(); err != nil {
		t.Fatal(err)
	}
	reserved("reserved", true)
	if got := allocated(t, reserve(dir)); got < engineReserve {
		t.Errorf("%d bytes are allocated for the engine", got)
	}
	add(t, j, Record{Event: Intent, Step: stage})
	reserved("appended", true)
	if err := j.Close(); err != nil { // as after a failed rollback
		t.Fatal(err)
	}
	reserved("closed", true)

	j, records, err := Reopen(dir, 7, "1.1", clock)
	if err != nil || len(records) != 2 {
		t.Fatalf("%+v, %v", records, err)
	}
	reserved("reopened", true)
	for range 2 {
		if err := j.Release(); err != nil || allocated(t, reserve(dir)) >= 0 {
			t.Errorf("not released: %v", err)
		}
	}
	add(t, j, Record{Event: End, Outcome: RolledBack})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	reserved("ended", false)
	if records, err := Read(dir, 7); err != nil || !Ended(records) {
		t.Errorf("%+v, %v", records, err)
	}
}

// A reserve that a crash left is removed when the journal ends.
func TestReserveLeftByCrash(t *testing.T) {
	dir := t.TempDir()
	j := create(t, dir, 7)
	if err := j.Reserve(); err != nil {
		t.Fatal(err)
	}
	j, _, err := Reopen(dir, 7, "1.1", clock)
	if err != nil {
		t.Fatal(err)
	}
	add(t, j, Record{Event: End, Outcome: RolledBack})
	if err := j.Close(); err != nil || allocated(t, reserve(dir)) >= 0 {
		t.Errorf("the reserve is left: %v", err)
	}
	if numbers, err := List(dir); err != nil || len(numbers) != 1 {
		t.Errorf("%v, %v", numbers, err)
	}
}

// A directory in the place of the reserve holds no space, and says what to do. It is not removed.
func TestReserveIsADirectory(t *testing.T) {
	dir := t.TempDir()
	j := create(t, dir, 7)
	if err := os.MkdirAll(reserve(dir)+"/x", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := j.Reserve(); err == nil || !strings.HasSuffix(err.Error(), reserve(dir)+": is a directory; move away the directory that is in the place of a file") {
		t.Errorf("got %v", err)
	}
	if err := j.Release(); err != nil {
		t.Errorf("nothing was reserved: %v", err)
	}
	if _, err := os.Stat(reserve(dir) + "/x"); err != nil {
		t.Error(err)
	}
}
