package main

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// copyAll copies config_files. Unlike Kolla it never leaves a partially written
// file, see replaceFile, and it does not remove mount points or what is mounted.
func (a applier) copyAll(c config) error {
	for _, r := range c.copies {
		sources, err := a.glob(r.source)
		if err != nil {
			return r.wrap(err)
		}
		if len(sources) == 0 && !r.optional {
			return r.wrap(fmt.Errorf("source %s: no such file", r.source))
		}
		if err := a.checkOwner(r); err != nil && len(sources) > 0 {
			return r.wrap(err) // of an optional source that an earlier entry made
		}
		for _, source := range sources {
			if err := a.copy(source, a.path(r.destOf(source)), r); err != nil {
				return r.wrap(err)
			}
		}
	}
	return nil
}

// destOf returns where a source goes: if dest ends in a slash, into that
// directory under the source's last name, which is empty when the rule's source
// ends in a slash too.
func (r rule) destOf(source string) string {
	if strings.HasSuffix(r.dest, "/") && !strings.HasSuffix(r.source, "/") {
		return r.dest + path.Base(source)
	}
	return r.dest
}

// copy copies a file or a directory. Without merge, an existing dest is removed.
func (a applier) copy(source, dest string, r rule) error {
	st, err := statSource(source, r)
	if err != nil {
		return err
	}
	if err := a.refuseLinks(path.Dir(dest)); err != nil {
		return err
	}
	if isDir(st) && !r.merge {
		if err := a.mounts.remove(dest); err != nil {
			return err
		}
	}
	if err := makeDirs(path.Dir(dest)); err != nil {
		return err
	}
	return a.copyTree(source, dest, r)
}

// keepsLinks reports whether links are copied as links.
func (r rule) keepsLinks() bool { return r.merge && r.preserve }

// statSource follows links. A link that leads nowhere is copied if links are kept.
func statSource(source string, r rule) (unix.Stat_t, error) {
	st, err := stat(source)
	if err != nil && r.keepsLinks() {
		return lstat(source)
	}
	return st, err
}

// copyTree copies into an existing directory.
func (a applier) copyTree(source, dest string, r rule) error {
	st, err := statSource(source, r)
	if err != nil {
		return err
	}
	if !isDir(st) {
		return a.copyFile(source, dest, st, r)
	}
	if err := a.refuseLinks(dest); err != nil {
		return err
	}
	if there, err := stat(dest); err != nil || !isDir(there) { // a dangling link is neither
		if err := a.mounts.remove(dest); err != nil {
			return err
		}
		if err := makeDirs(dest); err != nil {
			return err
		}
	}
	if err := a.setProperties(source, dest, st, r); err != nil {
		return err
	}
	names, err := list(source)
	for _, name := range names {
		err = errors.Join(err, a.copyTree(path.Join(source, name), path.Join(dest, name), r))
	}
	return err
}

func (a applier) copyFile(source, dest string, st unix.Stat_t, r rule) error {
	if there, err := lstat(dest); err == nil && isDir(there) {
		if err := a.mounts.remove(dest); err != nil {
			return err
		}
	}
	if r.keepsLinks() {
		target := make([]byte, unix.PathMax)
		if n, err := unix.Readlink(source, target); err == nil {
			return replaceLink(string(target[:n]), dest)
		}
	}
	if !isRegular(st) {
		return fmt.Errorf("%s: not a regular file", source)
	}
	data, err := readFile(source)
	if err != nil {
		return err
	}
	return replaceFile(dest, data, func(path string) error { return a.setProperties(source, path, st, r) })
}

// setProperties gives a copy its owner and mode, and with preserve_properties
// also the extended attributes and times of its source.
func (a applier) setProperties(source, path string, st unix.Stat_t, r rule) error {
	if !r.preserve {
		a.setOwnerAndMode(path, r)
		return nil
	}
	err := unix.Chown(path, int(st.Uid), int(st.Gid)) // first: it takes capabilities and set-id bits away
	if err == nil {
		err = unix.Chmod(path, st.Mode&0o7777)
	}
	if err == nil {
		err = copyAttributes(source, path)
	}
	if err == nil {
		err = unix.UtimesNano(path, []unix.Timespec{st.Atim, st.Mtim})
	}
	return failure("keep properties of", path, err)
}
