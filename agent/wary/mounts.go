package wary

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// origin is a directory by its file system and its path in there, which are the same whichever
// mount it is reached by. The zero origin is unknown.
type origin struct{ device, path string }

// within reports whether a directory is another one, or lies below it.
func (o origin) within(other origin) bool {
	return other.device != "" && o.device == other.device && below(o.path, other.path)
}

// below reports whether a path is another one, or lies below it.
func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// mounts is the mount table of this process, proc_pid_mountinfo(5).
type mounts []mount

type mount struct {
	id       string
	origin   // of the directory that is mounted
	point    string
	readOnly bool
}

// readMounts reads the mount table. Users can make a line of any length.
func readMounts() (mounts, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var all mounts
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 6 {
			return nil, fmt.Errorf("/proc/self/mountinfo: unknown line %.100q", line)
		}
		all = append(all, mount{id: f[0], origin: origin{f[2], unescape.Replace(f[3])}, point: unescape.Replace(f[4]),
			readOnly: slices.Contains(strings.Split(f[5], ","), "ro")})
	}
	return all, nil
}

// originOf returns the origin of an open directory.
func (all mounts) originOf(open int) (origin, error) {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(open))
	if err != nil {
		return origin{}, err
	}
	_, rest, _ := bytes.Cut(info, []byte("mnt_id:"))
	id, _, _ := strings.Cut(string(rest), "\n")
	path, err := pathOf(open)
	if err != nil {
		return origin{}, err
	}
	for _, m := range all {
		if m.id == strings.TrimSpace(id) && below(path, m.point) {
			rel, err := filepath.Rel(m.point, path)
			return origin{m.device, filepath.Join(m.path, rel)}, err
		}
	}
	return origin{}, fmt.Errorf("the mount table does not have the mount of %s", path)
}

// under returns the origins of what is mounted below a path. What is mounted read-only is also
// read-only for a container that mounts the path.
func (all mounts) under(path string) []origin {
	var under []origin
	for _, m := range all {
		if !m.readOnly && m.point != path && below(m.point, path) {
			under = append(under, m.origin)
		}
	}
	return under
}
