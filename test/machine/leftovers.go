package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Processes, mounts and sockets end with a machine's namespaces. Two kinds of
// things do not, and are removed from outside: files, which all are below one
// directory, and cgroups, as the hierarchies are the real ones.
const (
	dirPrefix   = "kollet-machine-"
	groupPrefix = "kollet-test-"
)

// madeInside lists the cgroups, besides our own, that programs inside make
// below the roots: libvirt's for guests, kollet's for guests that it protects,
// and Docker's where a test leaves it its default.
var madeInside = []string{"machine", "kollet-guests", "docker"}

// belongings is what a machine has outside.
type belongings struct {
	dir   string // for all files
	group string // name of the parent of all cgroups
	lock  *os.File
}

// claim makes the directory for a machine's files and chooses its cgroup. All
// machines hold one lock, shared; whoever finds it free is alone, so whatever
// an earlier machine left when it was killed may go.
func claim() (*belongings, error) {
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "kollet-machine.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of all machines: %w", err)
	}
	own := &belongings{lock: lock, group: fmt.Sprintf("/%s%d", groupPrefix, os.Getpid())}
	if own.alone() {
		err = errors.Join(own.sweep(), own.remember())
	}
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_SH)
	}
	if err == nil {
		own.dir, err = os.MkdirTemp("", dirPrefix)
	}
	if err == nil {
		// Daemons that leave root behind have their files below.
		err = errors.Join(os.Chmod(own.dir, 0o755), os.Mkdir(own.dir+"/tmp", 0o777), os.Chmod(own.dir+"/tmp", 0o1777))
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return own, nil
}

// release removes what the machine left.
func (b *belongings) release() error {
	defer b.lock.Close()
	err := errors.Join(removeTree(b.dir), removeGroups(func(name string) bool { return "/"+name == b.group }))
	if b.alone() {
		err = errors.Join(err, b.sweep())
	}
	return err
}

// alone tells whether no other machine exists, and keeps others from starting.
func (b *belongings) alone() bool {
	return unix.Flock(int(b.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// remember writes down which cgroups are not ours to remove.
func (b *belongings) remember() error {
	var there []string
	err := eachGroup(func(path string) error {
		if slices.Contains(madeInside, filepath.Base(path)) {
			there = append(there, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.lock.Truncate(0); err != nil {
		return err
	}
	_, err = b.lock.WriteAt([]byte(strings.Join(there, "\n")), 0)
	return err
}

// sweep removes everything that any machine left.
func (b *belongings) sweep() error {
	record, err := os.ReadFile(b.lock.Name())
	if err != nil {
		return err
	}
	known := strings.Split(string(record), "\n")
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		err = errors.Join(err, removeTree(dir))
	}
	return errors.Join(err, eachGroup(func(path string) error {
		name := filepath.Base(path)
		ours := strings.HasPrefix(name, groupPrefix) || len(record) > 0 && slices.Contains(madeInside, name)
		if !ours || slices.Contains(known, path) {
			return nil
		}
		return removeGroup(path)
	}))
}

// removeGroups removes those cgroups below the roots whose name is chosen.
func removeGroups(chosen func(name string) bool) error {
	return eachGroup(func(path string) error {
		if !chosen(filepath.Base(path)) {
			return nil
		}
		return removeGroup(path)
	})
}

// eachGroup visits the cgroups directly below the root of every hierarchy.
func eachGroup(visit func(path string) error) error {
	all, err := mounts()
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.fs != "cgroup" && m.fs != "cgroup2" {
			continue
		}
		entries, err := os.ReadDir(m.point)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			if err := visit(filepath.Join(m.point, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeGroup removes a cgroup with those below it. The kernel refuses if a
// process is in one of them.
func removeGroup(path string) error {
	var dirs []string
	err := filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, p)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		if e := os.Remove(dir); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove a cgroup: %w", e))
		}
	}
	return err
}
