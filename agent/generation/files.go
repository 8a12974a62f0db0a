package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Properties are what a file that is copied with preserve_properties keeps.
type Properties struct {
	Mode     uint32 // permissions, with the set-id bits
	UID, GID int
	Time     time.Time
}

// PropertiesOf returns the properties of a file.
func PropertiesOf(info fs.FileInfo) (Properties, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Properties{}, fmt.Errorf("%s has no owner", info.Name())
	}
	return Properties{Mode: st.Mode & 0o7777, UID: int(st.Uid), GID: int(st.Gid), Time: info.ModTime()}, nil
}

// Owner returns the owner as UID:GID.
func (p Properties) Owner() string { return strconv.Itoa(p.UID) + ":" + strconv.Itoa(p.GID) }

// Perm returns the mode in four octal digits.
func (p Properties) Perm() string { return fmt.Sprintf("%04o", p.Mode) }

// writeFiles writes a service's files. A directory comes before what is in it.
func writeFiles(dir string, files []Rendered) error {
	config, public := filepath.Join(dir, "config"), filepath.Join(dir, "public")
	for _, d := range []string{config, public} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := writeFile(filepath.Join(config, f.Name), f); err != nil {
			return err
		}
		if f.Public == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(public, f.Name)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(public, f.Name), f.Public, 0o400); err != nil {
			return err
		}
	}
	for _, f := range slices.Backward(files) { // what is in a directory changes its time
		if err := setProperties(filepath.Join(config, f.Name), f); err != nil {
			return err
		}
	}
	return errors.Join(os.Chmod(config, 0o500), os.Chmod(public, 0o500))
}

func writeFile(path string, f Rendered) error {
	switch {
	case f.Directory:
		return os.Mkdir(path, 0o700)
	case f.Link != "":
		return os.Symlink(f.Link, path)
	}
	return os.WriteFile(path, f.Content, 0o400)
}

func setProperties(path string, f Rendered) error {
	if f.Keep == nil {
		if f.Directory {
			return os.Chmod(path, 0o500)
		}
		return nil
	}
	if err := os.Lchown(path, f.Keep.UID, f.Keep.GID); err != nil { // first: it takes set-id bits away
		return err
	}
	if f.Link != "" {
		return nil // its mode and time mean nothing
	}
	if err := unix.Chmod(path, f.Keep.Mode); err != nil {
		return &fs.PathError{Op: "chmod", Path: path, Err: err}
	}
	return os.Chtimes(path, f.Keep.Time, f.Keep.Time)
}

// Recall reads a file of a service in a generation again, to render the same. changed
// reports that it is not what was written.
func (s Store) Recall(key Key, number int, service string, f File) (r Rendered, changed bool, err error) {
	path := filepath.Join(s.Config(number, service), f.Name)
	r = Rendered{Name: f.Name, Directory: f.Directory, Link: f.Link}
	info, err := os.Lstat(path)
	if err != nil {
		return r, false, err
	}
	if f.Preserve {
		keep, err := PropertiesOf(info)
		if err != nil {
			return r, false, err
		}
		r.Keep, changed = &keep, keep.Owner() != f.Owner || keep.Perm() != f.Perm
	}
	switch {
	case f.Directory:
		return r, changed || !info.IsDir(), nil
	case f.Link != "":
		target, err := os.Readlink(path)
		return r, err != nil || target != f.Link, nil
	}
	if r.Content, err = os.ReadFile(path); err != nil {
		return r, false, err
	}
	r.Public, err = os.ReadFile(filepath.Join(s.Public(number, service), f.Name))
	return r, changed || !key.Matches(r.Content, f.SHA256), err
}
