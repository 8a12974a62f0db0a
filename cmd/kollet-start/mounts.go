package main

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mounts are the mount points of the container.
type mounts []string

// remove removes name and everything below it, except mount points and the
// directories that contain them: the content of a volume must not be deleted. It
// is not an error if name does not exist.
func (m mounts) remove(name string) error {
	if slices.Contains(m, name) {
		return nil
	}
	st, err := lstat(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if !isDir(st) {
		return failure("unlink", name, unix.Unlink(name))
	}
	names, err := list(name)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := m.remove(path.Join(name, n)); err != nil {
			return err
		}
	}
	if m.below(name) {
		return nil
	}
	return failure("rmdir", name, unix.Rmdir(name))
}

func (m mounts) below(dir string) bool {
	return slices.ContainsFunc(m, func(point string) bool { return strings.HasPrefix(point, dir+"/") })
}

// readMounts reads the fifth field of /proc/self/mountinfo, proc(5). Without /proc
// there are none, and the kernel refuses to remove mount points.
func readMounts() mounts {
	data, _ := readFile("/proc/self/mountinfo")
	return parseMounts(string(data))
}

func parseMounts(text string) (m mounts) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 4 {
			m = append(m, unescape(f[4]))
		}
	}
	return m
}

// unescape replaces the octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
