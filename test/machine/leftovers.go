package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Processes, mounts and sockets end with a machine's namespaces. Files and cgroups do
// not, and are removed from outside. All files are below one directory; the cgroup
// hierarchies are those of the host.
const (
	dirPrefix   = "kollet-machine-"
	groupPrefix = "kollet-test-"
	lockPath    = "/tmp/kollet-machine.lock" // one for all machines, regardless of TMPDIR
)

// madeInside lists the other cgroups that programs inside create below the roots:
// libvirt's for guests, kollet's for protected guests, those of containers in containerd's
// namespace kollet, and Podman's.
var madeInside = []string{"machine", "kollet-guests", "kollet", "libpod_parent"}

// belongings are a machine's files and cgroups outside of it.
type belongings struct {
	dir   string // for all files
	group string // parent of all cgroups, as a path below the roots
	lock  *os.File
}

// claim creates the directory for a machine's files and chooses its cgroup. All machines
// share one lock. If no other machine holds it, what killed machines left can be removed.
func claim() (own *belongings, err error) {
	lock, err := os.OpenFile(lockPath, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of all machines: %w", err)
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	own = &belongings{lock: lock}
	if own.alone() {
		if err := errors.Join(own.sweep(), own.remember()); err != nil {
			return nil, fmt.Errorf("clean up after an earlier machine: %w", err)
		}
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		return nil, fmt.Errorf("lock %s: %w", lockPath, err)
	}
	if own.dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return nil, err
	}
	own.group = "/" + groupPrefix + strings.TrimPrefix(filepath.Base(own.dir), dirPrefix)
	// Daemons that drop root privileges have files below it.
	return own, errors.Join(os.Chmod(own.dir, 0o755), os.Mkdir(own.dir+"/tmp", 0o700), os.Chmod(own.dir+"/tmp", 0o777|fs.ModeSticky))
}

// release removes what the machine left.
func (b *belongings) release() error {
	defer b.lock.Close()
	err := errors.Join(removeTree(b.dir), eachGroup(func(path string) error {
		if "/"+filepath.Base(path) != b.group {
			return nil
		}
		return removeGroup(path)
	}))
	if b.alone() {
		err = errors.Join(err, b.sweep(), b.lock.Truncate(0))
	}
	if err != nil {
		return fmt.Errorf("clean up after the machine: %w", err)
	}
	return nil
}

// alone reports whether no other machine exists, and prevents others from starting.
func (b *belongings) alone() bool {
	return unix.Flock(int(b.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// sweep removes everything that any machine left.
func (b *belongings) sweep() error {
	before, err := b.recall()
	if err != nil {
		return err
	}
	return errors.Join(sweepDirs(os.TempDir()), eachGroup(func(path string) error {
		name := filepath.Base(path)
		switch {
		case strings.HasPrefix(name, groupPrefix):
			return removeEmpty(path, nil)
		case before != nil && slices.Contains(madeInside, name):
			return removeEmpty(path, before)
		}
		return nil
	}))
}

// sweepDirs removes the directories of all machines.
func sweepDirs(temp string) error {
	dirs, err := filepath.Glob(filepath.Join(temp, dirPrefix+"*[0-9]"))
	for _, dir := range dirs {
		err = errors.Join(err, removeTree(dir))
	}
	return err
}

// remember records in the lock file which cgroups existed before the first machine and
// must not be removed.
func (b *belongings) remember() error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	record := []string{boot}
	err = eachGroup(func(path string) error {
		if !slices.Contains(madeInside, filepath.Base(path)) {
			return nil
		}
		all, err := withBelow(path)
		record = append(record, all...)
		return err
	})
	if err != nil {
		return err
	}
	if err := b.lock.Truncate(0); err != nil {
		return err
	}
	_, err = b.lock.WriteAt([]byte(strings.Join(record, "\n")), 0)
	return err
}

// recall reads what remember wrote. It returns nil if there is no record of this boot;
// then no cgroup may be removed.
func (b *belongings) recall() (before []string, err error) {
	text, err := os.ReadFile(lockPath)
	if err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if record := strings.Split(string(text), "\n"); record[0] == boot {
		return record, nil
	}
	return nil, nil
}

// bootID changes at each boot of the host, random(4).
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// eachGroup visits the cgroups directly below the root of every hierarchy.
func eachGroup(visit func(path string) error) error {
	all, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return err
	}
	for _, m := range all {
		entries, err := os.ReadDir(m.Mountpoint)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			if err := visit(filepath.Join(m.Mountpoint, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// withBelow returns a cgroup and those below it, parents first.
func withBelow(path string) (dirs []string, err error) {
	err = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && e.IsDir() {
			dirs = append(dirs, p)
		}
		return err
	})
	return dirs, err
}

// removeGroup removes a cgroup and those below it. The kernel refuses if one of them
// contains a process.
func removeGroup(path string) error {
	dirs, err := withBelow(path)
	for _, dir := range slices.Backward(dirs) {
		if e := os.Remove(dir); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove a cgroup: %w", e))
		}
	}
	return err
}

// removeEmpty does the same, except for cgroups in use, which others created meanwhile,
// and those to keep.
func removeEmpty(path string, keep []string) error {
	dirs, err := withBelow(path)
	for _, dir := range slices.Backward(dirs) {
		if slices.Contains(keep, dir) {
			continue
		}
		if e := os.Remove(dir); e != nil && !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, unix.EBUSY) {
			err = errors.Join(err, fmt.Errorf("remove a cgroup: %w", e))
		}
	}
	return err
}
