package host

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// freezer is how a hierarchy freezes the processes of a cgroup.
type freezer struct {
	file, frozen, thawed  string
	state, stateWhenStill string // the file that says whether all are frozen, and what it has then
}

// freezers are those of cgroup v1 and v2 (the kernel's freezer-subsystem.rst and
// cgroup-v2.rst), by the hierarchy.
var freezers = map[string]freezer{
	"freezer": {"freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"},
	"":        {"cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"},
}

// stillTime is how long Freeze waits for the processes. One that does not stop in time is in
// the kernel, and starts no other there.
const stillTime = 2 * time.Second

// Freeze freezes the processes of a cgroup in the hierarchies that can, and reports whether
// there is one. A process that is moved out of the cgroup runs again.
func (c Cgroup) Freeze(ctx context.Context) (bool, error) {
	found := false
	for hierarchy, f := range freezers {
		dir, ok := c.freezable(hierarchy, f)
		if !ok {
			continue
		}
		found = true
		if err := os.WriteFile(filepath.Join(dir, f.file), []byte(f.frozen), 0); err != nil {
			return true, err
		}
		for until := time.Now().Add(stillTime); ctx.Err() == nil && time.Now().Before(until); time.Sleep(time.Millisecond) {
			data, err := os.ReadFile(filepath.Join(dir, f.state))
			if err != nil || strings.Contains(string(data), f.stateWhenStill) {
				break
			}
		}
	}
	return found, nil
}

// Thaw lets the processes of a cgroup run again.
func (c Cgroup) Thaw() error {
	var errs []error
	for hierarchy, f := range freezers {
		if dir, ok := c.freezable(hierarchy, f); ok {
			errs = append(errs, thaw(filepath.Join(dir, f.file), f))
		}
	}
	return errors.Join(errs...)
}

func (c Cgroup) freezable(hierarchy string, f freezer) (dir string, ok bool) {
	mount, mounted := c.mount(hierarchy)
	own := c.own[hierarchy]
	if !mounted || own == "" || own == "/" {
		return "", false
	}
	dir = filepath.Join(mount, own)
	return dir, exists(filepath.Join(dir, f.file))
}

func thaw(file string, f freezer) error {
	err := os.WriteFile(file, []byte(f.thawed), 0)
	if Gone(err) || errors.Is(err, unix.ENODEV) { // the cgroup was removed
		return nil
	}
	return err
}

// ThawAll is Thaw for the cgroups with this prefix, at the top of a hierarchy or in a slice
// of systemd.
func (h Host) ThawAll(prefix string) error {
	mounts, err := h.hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for hierarchy, f := range freezers {
		mount, ok := mounts[hierarchy]
		if !ok {
			continue
		}
		for _, at := range []string{"", "machine.slice"} {
			files, _ := filepath.Glob(path.Join(mount, at, prefix+"*", f.file)) // the pattern is well-formed
			for _, file := range files {
				errs = append(errs, thaw(file, f))
			}
		}
	}
	return errors.Join(errs...)
}
