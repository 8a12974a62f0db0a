package host

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Membership is a process's path in every cgroup hierarchy. Its keys are the
// hierarchies' controllers as in /proc/PID/cgroup, "" for the unified one.
type Membership map[string]string

// Membership reads the cgroups of a process.
func (h Host) Membership(pid int) (Membership, error) { return h.membership(number(pid)) }

func (h Host) membership(process string) (Membership, error) {
	return readMembership(filepath.Join(h.Proc, process, "cgroup"))
}

func readMembership(file string) (Membership, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the path is below /proc
	if err != nil {
		return nil, err
	}
	return parseMembership(string(data)), nil
}

// parseMembership parses a cgroup file of /proc (cgroups(7)): lines of
// HIERARCHY-ID:CONTROLLERS:PATH.
func parseMembership(data string) Membership {
	m := Membership{}
	for line := range strings.Lines(data) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 {
			m[parts[1]] = parts[2]
		}
	}
	return m
}

// inside returns the hierarchies in which m lies within container. A container
// without a cgroup of its own in a hierarchy is at its root there, and the root
// belongs to no container.
func (m Membership) inside(container Membership) []string {
	var names []string
	for name, own := range container {
		if at := m[name]; own != "/" && (at == own || strings.HasPrefix(at, own+"/")) {
			names = append(names, name)
		}
	}
	return names
}

// Names reports whether any path names a container.
func (m Membership) Names(container string) bool {
	for _, at := range m {
		if cgroupNamed(at, container) != "" {
			return true
		}
	}
	return false
}

// outside reports whether a process with this membership is certainly in no cgroup of a
// container. That of a process whose first thread exits says nothing in the hierarchies of
// cgroup v1, where it is that of the root then (proc_cgroup_show in the kernel's
// kernel/cgroup/cgroup.c).
func (m Membership) outside(container string) bool {
	if m.Names(container) {
		return false
	}
	if _, unified := m[""]; unified && len(m) == 1 {
		return true
	}
	for hierarchy, at := range m {
		if hierarchy != "" && at != "/" {
			return true
		}
	}
	return false
}

// containerCgroup is how engines name the cgroup of a container: by its id, or for systemd
// ENGINE-ID.scope.
var containerCgroup = regexp.MustCompile(`^(?:[a-z]+-)?([0-9a-f]{64})(?:\.scope)?$`)

// Container returns the id of the container in whose cgroup a process is, "" if it is in none. If
// its engine runs in a container itself, the id is that of the inner one.
func (m Membership) Container() string {
	for _, hierarchy := range slices.Sorted(maps.Keys(m)) {
		for _, part := range slices.Backward(strings.Split(m[hierarchy], "/")) {
			if found := containerCgroup.FindStringSubmatch(part); found != nil {
				return found[1]
			}
		}
	}
	return ""
}

// cgroupNamed returns a cgroup's path up to the cgroup that is named after a container, ""
// if there is none. It is called by the container's whole id, which may have a prefix and
// systemd's suffix, as in docker-ID.scope. That of Podman's monitor, libpod-conmon-ID.scope, is
// not the container's. A part of another container's id is not taken for
// it: what is found here may be killed.
func cgroupNamed(path, id string) string {
	if id == "" {
		return ""
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		prefix, named := strings.CutSuffix(strings.TrimSuffix(part, ".scope"), id)
		if named && (prefix == "" || strings.HasSuffix(prefix, "-") && !strings.HasSuffix(prefix, "-conmon-")) {
			return strings.Join(parts[:i+1], "/")
		}
	}
	return ""
}
