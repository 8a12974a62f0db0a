package containers

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// immutable matches an image reference that cannot change its meaning.
var immutable = regexp.MustCompile(`^([^@]+@)?sha256:[0-9a-f]{64}$`)

// Limits are the names of resource limits, from getrlimit(2).
var Limits = []string{"as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile",
	"nproc", "rss", "rtprio", "rttime", "sigpending", "stack"}

// containerName matches the names that both Docker and containerd accept.
var containerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)

var tmpfsMode = regexp.MustCompile(`^[0-7]{4}$`)

var propagations = []string{"", "rprivate", "private", "rslave", "slave", "rshared", "shared"}

// Check returns the first problem of a spec that no engine accepts, with the name
// of the field.
func (s Spec) Check() error {
	if !containerName.MatchString(s.Name) {
		return fmt.Errorf("name %q; expected two or more letters, digits, '_', '.' and '-', of which the first is a letter or digit", s.Name)
	}
	if !immutable.MatchString(s.Image) {
		return fmt.Errorf("image %q can change its meaning; give its digest (name@sha256:…) or id (sha256:…)", s.Image)
	}
	modes := []struct {
		field, value string
		allowed      []string
	}{
		{"pid", s.PID, []string{"", "host"}},
		{"ipc", s.IPC, []string{"", "host"}},
		{"cgroup", s.Cgroup, []string{"", "host"}},
		{"network_mode", s.NetworkMode, []string{"", "host", "none"}},
		{"restart", string(s.Restart), []string{"", string(RestartNo), string(RestartUnlessStopped), string(RestartAlways)}},
	}
	for _, m := range modes {
		if !slices.Contains(m.allowed, m.value) {
			return fmt.Errorf("%s %q; expected one of %q", m.field, m.value, m.allowed)
		}
	}
	if s.LogSize < 0 || s.LogFiles < 0 || (s.LogFiles > 0 && s.LogSize == 0) {
		return fmt.Errorf("log_files %d with log_size %d: the number of files needs a limit of their size; set log_size", s.LogFiles, s.LogSize)
	}
	for key := range s.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			return fmt.Errorf("environment: %q is not a variable name", key)
		}
	}
	for _, d := range s.Devices {
		if !path.IsAbs(d) {
			return fmt.Errorf("device %q is not an absolute path", d)
		}
	}
	if err := checkMounts(s.Mounts); err != nil {
		return err
	}
	if key, err := s.Dimensions.Check(); err != nil {
		return fmt.Errorf("dimensions.%s: %w", key, err)
	}
	if err := s.Security.Check(); err != nil {
		return fmt.Errorf("security_opt: %w", err)
	}
	if err := s.Healthcheck.Check(); err != nil {
		return fmt.Errorf("engine_healthcheck.%w", err)
	}
	if s.Privileged && s.Security.hasProfile() { // Docker 20.10 would ignore it
		return fmt.Errorf("security_opt: a privileged container has no seccomp profile; remove one of the two")
	}
	return checkUlimits(s.Ulimits)
}

func checkMounts(mounts []Mount) error {
	seen := map[string]bool{}
	for _, m := range mounts {
		target := path.Clean(m.Target)
		switch {
		case !path.IsAbs(m.Target) || target == "/":
			return fmt.Errorf("mount target %q; expected an absolute path below /", m.Target)
		case seen[target]:
			return fmt.Errorf("two mounts have the target %s", target)
		case m.Type == Bind && !path.IsAbs(m.Source):
			return fmt.Errorf("bind mount at %s: source %q is not an absolute path", target, m.Source)
		case m.Type == Volume && (m.Source == "" || strings.Contains(m.Source, "/")):
			return fmt.Errorf("volume at %s: %q is not a volume name", target, m.Source)
		case m.Type == Tmpfs && m.Source != "":
			return fmt.Errorf("tmpfs at %s has the source %q; remove it", target, m.Source)
		case m.Type != Bind && m.Type != Volume && m.Type != Tmpfs:
			return fmt.Errorf("mount at %s: type %q; expected bind, volume or tmpfs", target, m.Type)
		case !slices.Contains(propagations, m.Propagation):
			return fmt.Errorf("mount at %s: propagation %q; expected one of %q", target, m.Propagation, propagations[1:])
		case m.Type != Bind && m.Propagation != "":
			return fmt.Errorf("mount at %s: only bind mounts have a propagation", target)
		case m.Type != Tmpfs && (m.Size != 0 || m.Mode != ""):
			return fmt.Errorf("mount at %s: only a tmpfs has a size and a mode", target)
		case m.Size < 0:
			return fmt.Errorf("tmpfs at %s: size %d; expected a positive number of bytes", target, m.Size)
		case m.Mode != "" && !tmpfsMode.MatchString(m.Mode):
			return fmt.Errorf("tmpfs at %s: mode %q; expected four octal digits, such as 0755", target, m.Mode)
		}
		seen[target] = true
	}
	return nil
}

func checkUlimits(limits []Ulimit) error {
	seen := map[string]bool{}
	for _, u := range limits {
		switch {
		case !slices.Contains(Limits, u.Name):
			return fmt.Errorf("ulimit %q; expected one of %s", u.Name, strings.Join(Limits, ", "))
		case seen[u.Name]:
			return fmt.Errorf("ulimit %s is set twice", u.Name)
		case u.Soft < -1 || u.Hard < -1:
			return fmt.Errorf("ulimit %s is negative; use -1 for unlimited", u.Name)
		case u.Hard != -1 && (u.Soft == -1 || u.Soft > u.Hard):
			return fmt.Errorf("ulimit %s: the soft limit %d is above the hard limit %d", u.Name, u.Soft, u.Hard)
		}
		seen[u.Name] = true
	}
	return nil
}

// Canonical returns a copy in the form that Engine.Inspect uses, in which specs
// with the same meaning are equal: lists without a meaningful order are sorted,
// paths are clean, and defaults have one spelling.
func (s Spec) Canonical() Spec {
	s.Labels = maps.Clone(s.Labels)
	s.Env = maps.Clone(s.Env)
	if len(s.Labels) == 0 {
		s.Labels = nil
	}
	if len(s.Env) == 0 {
		s.Env = nil
	}
	s.Entrypoint = list(s.Entrypoint)
	s.Command = list(s.Command)
	s.CapAdd = capabilities(s.CapAdd)
	s.CapDrop = capabilities(s.CapDrop)

	s.Devices = list(s.Devices)
	for i := range s.Devices {
		s.Devices[i] = path.Clean(s.Devices[i])
	}
	slices.Sort(s.Devices)

	s.Mounts = list(s.Mounts)
	for i := range s.Mounts {
		m := &s.Mounts[i]
		m.Target = path.Clean(m.Target)
		if m.Type == Bind {
			m.Source = path.Clean(m.Source)
		}
		if m.Propagation == "rprivate" {
			m.Propagation = ""
		}
	}
	slices.SortFunc(s.Mounts, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) })

	s.Ulimits = list(s.Ulimits)
	slices.SortFunc(s.Ulimits, func(a, b Ulimit) int { return strings.Compare(a.Name, b.Name) })

	s.Healthcheck.Test = list(s.Healthcheck.Test)
	s.Healthcheck = s.Healthcheck.Defaults()
	if s.Dimensions.CPUQuota == -1 {
		s.Dimensions.CPUQuota = 0
	}
	if s.Restart == "" {
		s.Restart = RestartNo
	}
	return s
}

// list returns a copy of a list, or nil if it is empty.
func list[T any](in []T) []T {
	if len(in) == 0 {
		return nil
	}
	return slices.Clone(in)
}

// capabilities returns capability names in the form NET_ADMIN, sorted and without
// duplicates.
func capabilities(in []string) []string {
	out := list(in)
	for i := range out {
		out[i] = strings.TrimPrefix(strings.ToUpper(out[i]), "CAP_")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// String returns a mount in the short form SOURCE:TARGET:OPTIONS.
func (m Mount) String() string {
	text := m.Target
	if m.Source != "" {
		text = m.Source + ":" + m.Target
	}
	options := []string{}
	if m.ReadOnly {
		options = append(options, "ro")
	}
	if m.Propagation != "" {
		options = append(options, m.Propagation)
	}
	if m.Size != 0 {
		options = append(options, "size="+size(m.Size))
	}
	if m.Mode != "" {
		options = append(options, "mode="+m.Mode)
	}
	if len(options) > 0 {
		text += ":" + strings.Join(options, ",")
	}
	return text
}
