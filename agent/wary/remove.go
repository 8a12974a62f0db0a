package wary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// mostNested is how many directories RemoveAll has open below each other.
const mostNested = 16

// RemoveAll removes what a path is, with all that is in it, if it exists. It follows no link,
// and only the last name of the path may have been written by others, or anything below it.
// They may have nested directories without end, which is why os.RemoveAll does not do: it keeps
// all of them open. Here each file costs the same, however deep it is. When the context ends,
// what is left stays for the next call.
func RemoveAll(ctx context.Context, path string) error {
	parent, err := openDir(unix.AT_FDCWD, filepath.Dir(path))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		defer parent.Close()
		r := remover{ctx: ctx}
		err = r.remove(parent, filepath.Base(path), 0)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// remover removes one tree.
type remover struct {
	ctx   context.Context
	top   *os.File // the tree's own directory, once it is open
	moved int      // names that were tried for directories that were moved to top
}

// remove removes a name in an open directory, which is depth directories below the parent of
// the tree. A directory that is too deep is moved to the tree's own, and is removed from there.
func (r *remover) remove(dir *os.File, name string, depth int) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return failed("unlink", name, err)
	}
	if depth > mostNested {
		return r.moveUp(dir, name)
	}
	sub, err := openDir(int(dir.Fd()), name)
	if err != nil {
		return failed("open", name, err)
	}
	defer sub.Close()
	if depth == 0 {
		r.top = sub
	}
	for { // until nothing is left: of what is removed or moved meanwhile, a reader may miss something
		found, err := r.empty(sub, depth+1)
		if err != nil {
			return err
		}
		if !found {
			break
		}
	}
	if err := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return failed("rmdir", name, err)
	}
	return nil
}

// empty removes what it finds in a directory, and reports whether that was anything.
func (r *remover) empty(dir *os.File, depth int) (found bool, err error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	for {
		names, err := dir.Readdirnames(1024)
		if err != nil && !errors.Is(err, io.EOF) {
			return found, err
		}
		if len(names) == 0 {
			return found, nil
		}
		found = true
		for _, name := range names {
			if err := r.remove(dir, name, depth); err != nil {
				return found, err
			}
		}
	}
}

// moveUp moves a directory to the tree's own, under a name that nothing has there.
func (r *remover) moveUp(dir *os.File, name string) error {
	for {
		r.moved++
		err := unix.Renameat2(int(dir.Fd()), name, int(r.top.Fd()), ".moved-"+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return failed("rename", name, err)
		}
	}
}

func openDir(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// failed names what could not be removed by its last name: its path may have no end.
func failed(what, name string, err error) error {
	return fmt.Errorf("%s %q: %w", what, name, err)
}
