package nodefile

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/sys/signal"

	"github.com/kollet/kollet/configs/report"
)

// reserved are the names of other entries in a generation's directory.
var reserved = []string{"manifest.json", "kollet-start"}

var moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*(\.\*)?$`)

var serviceName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]+$`)

// validateSettings checks the keys outside of services.
func (n *Node) validateSettings(problems *report.Problems) {
	oneOf := func(key, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			problems.Addf(n.Place(key), key, "expected one of %s, got %q", strings.Join(allowed, ", "), value)
		}
	}
	oneOf("engine", n.Engine, "docker", "containerd", "podman")
	oneOf("images.pull_policy", n.Images.PullPolicy, "missing", "always", "never")
	if scheme, registry, found := strings.Cut(n.Images.Registry, "://"); found {
		problems.Addf(n.Place("images.registry"), "images.registry", "expected HOST[:PORT][/PATH], such as %s, without %s://", registry, scheme)
		n.Images.Registry = registry // so that each image does not report it again
	}
	for i, pattern := range n.Images.Archives {
		if err := CheckArchive(pattern); err != nil {
			key := fmt.Sprintf("images.archives[%d]", i)
			problems.Addf(n.Place(key), key, "%v", err)
		}
	}
	if n.KeepGenerations < 1 {
		problems.Addf(n.Place("keep_generations"), "keep_generations", "expected 1 or more: a rollback needs an earlier generation")
	}
}

// CheckArchive returns an error unless pattern is an absolute path, or a pattern
// of such paths.
func CheckArchive(pattern string) error {
	if _, err := filepath.Match(pattern, ""); err != nil || !path.IsAbs(pattern) {
		return fmt.Errorf("expected an absolute path, or a pattern such as /media/images/*.tar, got %q", pattern)
	}
	return nil
}

// setDefaults sets the defaults.
func (n *Node) setDefaults() {
	n.setCloudDefaults()
	n.setDuration(&n.Images.StallTimeout, "images.stall_timeout", StallTimeout)
	maps.DeleteFunc(n.Services, func(_ string, s Service) bool { return s.Disabled })
	absent := func(name string) bool { _, there := n.Services[name]; return !there }
	for name, s := range n.Services {
		key := "services." + name
		// The profile's dependencies on services that this node does not run are dropped.
		if _, own := n.own.places[key+".depends_on"]; !own {
			s.DependsOn = slices.DeleteFunc(s.DependsOn, absent)
		}
		if s.Image != "" {
			s.Image = n.Images.Complete(s.Image)
		}
		if file, err := reference.ParseNormalizedNamed(s.InsteadOf); s.InsteadOf == s.Image || err != nil || reference.IsNameOnly(file) {
			s.InsteadOf = "" // the node file names no other image
		}
		setDefault(&s.PID, "private")
		setDefault(&s.IPC, "private")
		setDefault(&s.Cgroup, "private")
		setDefault(&s.NetworkMode, "host")
		setDefault(&s.Restart, "always")
		if _, own := n.own.places[key+".stop_grace_period"]; own {
			s.Version = nil // the node file knows better
		}
		n.setDuration(&s.StopGracePeriod, key+".stop_grace_period", 60*time.Second)
		for i := range s.Healthcheck {
			p := &s.Healthcheck[i]
			n.setDuration(&p.Interval, p.Key+".interval", time.Second)
			n.setDuration(&p.StartPeriod, p.Key+".start_period", time.Minute)
			n.setDuration(&p.Stable, p.Key+".stable", 2*time.Second)
			n.setDuration(&p.Timeout, p.Key+".timeout", 10*time.Second)
		}
		for i := range s.Requires {
			p := &s.Requires[i]
			n.setDuration(&p.Interval, p.Key+".interval", time.Second)
			n.setDuration(&p.StartPeriod, p.Key+".start_period", 10*time.Second)
			n.setDuration(&p.Timeout, p.Key+".timeout", 5*time.Second)
		}
		if s.Guests != nil {
			n.setDuration(&s.Guests.Canary.Timeout, key+".guests.canary.timeout", time.Minute)
		}
		for i := range s.Config {
			setDefault(&s.Config[i].Format, "text")
		}
		n.Services[name] = s
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// setDuration sets a default, unless the duration is set to zero explicitly.
func (n *Node) setDuration(field *time.Duration, key string, value time.Duration) {
	if !n.own.zeros[key] && (n.base == nil || !n.base.zeros[key]) {
		setDefault(field, value)
	}
}

// Complete adds the registry and the tag to an image name that has none.
func (i Images) Complete(image string) string {
	name, digest, pinned := strings.Cut(image, "@")
	if !strings.Contains(name, "/") && i.Registry != "" {
		name = strings.TrimSuffix(i.Registry, "/") + "/" + name
	}
	tagged := strings.Contains(path.Base(name), ":")
	switch {
	case pinned:
		return name + "@" + digest
	case !tagged && i.Tag != "":
		return name + ":" + i.Tag
	}
	return name
}

func (n *Node) validate(problems *report.Problems) {
	if len(n.Services) == 0 {
		problems.Addf(n.Place("services"), "services", "the node has no services; choose a profile or add services")
	}
	for _, name := range slices.Sorted(maps.Keys(n.Services)) {
		n.validateService(name, n.Services[name], problems)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Secrets)) {
		n.Secrets[name].validate(func(format string, args ...any) {
			problems.Addf(n.Place("secrets."+name), "secrets."+name, format, args...)
		})
	}
	n.validateCloud(problems)
	n.validateGroups(problems)
	if _, err := n.order(); err != nil {
		problems.Add(*err)
	}
}

// validateGroups reports groups of the node file that have one service only: the
// name is probably misspelt.
func (n *Node) validateGroups(problems *report.Problems) {
	members := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(n.Services)) {
		if group := n.Services[name].Group; group != "" {
			members[group] = append(members[group], name)
		}
	}
	for group, names := range members {
		key := "services." + names[0] + ".group"
		if _, own := n.own.places[key]; len(names) > 1 || !own {
			continue // a network may have just one service of a profile's group
		}
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(members)), func(other string) bool { return other == group })
		problems.Addf(n.Place(key), key, "no other service is in group %q%s", group, report.DidYouMean(group, others))
	}
}

func (n *Node) validateService(name string, s Service, problems *report.Problems) {
	key := "services." + name
	bad := func(field, format string, args ...any) {
		full := key + "." + field
		problems.Addf(n.Place(full), full, format, args...)
	}
	if !serviceName.MatchString(name) {
		problems.Addf(n.Place(key), key, "a service name has two or more characters of a-z, 0-9, '_', '.' and '-', the first a letter or digit")
	}
	if slices.Contains(reserved, name) {
		problems.Addf(n.Place(key), key, "this name is reserved for a file that kollet writes into a generation")
	}
	n.validateImage(s.Image, bad)
	for _, mode := range []struct {
		field, value string
		allowed      []string
	}{
		{"pid", s.PID, []string{"host", "private"}},
		{"ipc", s.IPC, []string{"host", "private"}},
		{"cgroup", s.Cgroup, []string{"host", "private"}},
		{"network_mode", s.NetworkMode, []string{"host", "none", "private"}},
		{"restart", s.Restart, []string{"always", "unless-stopped", "no"}},
	} {
		if !slices.Contains(mode.allowed, mode.value) {
			bad(mode.field, "expected one of %s, got %q", strings.Join(mode.allowed, ", "), mode.value)
		}
	}
	if s.StopSignal != "" {
		if number, err := signal.ParseSignal(s.StopSignal); err != nil || !signal.ValidSignalForPlatform(number) {
			bad("stop_signal", "expected a signal such as SIGTERM or 15, got %q", s.StopSignal)
		}
	}
	if _, err := s.LogBytes(); err != nil {
		bad("log_size", "%v", err)
	}
	if _, key, err := s.Dimensions.Parse(); err != nil {
		bad("dimensions."+key, "%v", err)
	}
	if _, _, key, err := s.Security(); err != nil {
		bad(key, "%v", err)
	}
	for _, dep := range s.DependsOn {
		if _, ok := n.Services[dep]; !ok {
			bad("depends_on", "this node has no service %q%s", dep, report.DidYouMean(dep, slices.Sorted(maps.Keys(n.Services))))
		}
	}
	if s.ReplaceWithDependencies && len(s.DependsOn) == 0 {
		bad("replace_with_dependencies", "the service has no depends_on")
	}
	if s.Preload != nil {
		for i, module := range s.Preload.Modules {
			if !moduleName.MatchString(module) {
				bad(fmt.Sprintf("preload.modules[%d]", i), "expected the name of a Python module, such as nova.virt.libvirt.driver, got %q", module)
			}
		}
		if len(s.Preload.Modules) > 0 && !s.Preload.Python {
			bad("preload.modules", "nothing imports them; set python: true")
		}
	}
	validateGuests(s, bad)
	validateCanary(s, bad)
	validateContract(s, bad)
	s.EngineHealthcheck.validate(n.Engine, bad)
	validateEntries(s, problems)
}

func validateGuests(s Service, bad func(string, string, ...any)) {
	if s.Guests == nil {
		return
	}
	if len(s.Guests.List) == 0 {
		bad("guests", "list is missing: the command that prints the UUIDs of running guests")
	}
	// The kernel kills every process of a PID namespace whose first one exits,
	// pid_namespaces(7).
	private := s.PID == "" || s.PID == "private"
	if protect := s.Guests.Protect; private && (protect == nil || *protect) {
		bad("guests", "in a private PID namespace guests die with the service; set pid: host, or guests.protect: false")
	}
}

func validateCanary(s Service, bad func(string, string, ...any)) {
	if s.Guests == nil || !s.Guests.Canary.Enabled {
		return
	}
	c := s.Guests.Canary
	for _, key := range []struct {
		name    string
		missing bool
	}{{"start", len(c.Start) == 0}, {"output", len(c.Output) == 0}, {"expect", c.Expect == ""}, {"stop", len(c.Stop) == 0}} {
		if key.missing {
			bad("guests.canary", "%s is missing: the canary needs start, output, expect and stop", key.name)
		}
	}
	if c.Timeout <= 0 {
		bad("guests.canary.timeout", "expected more than zero, got %v", c.Timeout)
	}
}

func (n *Node) validateImage(image string, bad func(string, string, ...any)) {
	if image == "" {
		bad("image", "no image; set it, or remove the service")
		return
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		bad("image", "%q is not an image reference: %v", image, err)
		return
	}
	if reference.IsNameOnly(named) {
		bad("image", "%q has neither tag nor digest; set images.tag, or write NAME:TAG or NAME@sha256:…", image)
	}
}

func validateEntries(s Service, problems *report.Problems) {
	for _, m := range s.Volumes {
		if !path.IsAbs(m.Target) {
			problems.Addf(m.Place, m.Key+".target", "expected an absolute path, got %q", m.Target)
		}
		if dir := Reserved(m.Target); dir != "" {
			problems.Addf(m.Place, m.Key+".target", reservedText, dir, m.Target)
		}
		if m.Propagation != "" && !slices.Contains(propagations, m.Propagation) {
			problems.Addf(m.Place, m.Key+".propagation", "expected one of %s, got %q", strings.Join(propagations, ", "), m.Propagation)
		}
		m.validateTmpfs(problems)
		if m.Propagation != "" && !path.IsAbs(m.Source) {
			problems.Addf(m.Place, m.Key+".propagation", "only a path on the host can have a propagation, and %q is not one", m.Source)
		}
	}
	for _, f := range s.Config {
		f.validate(problems)
	}
	for _, p := range s.Healthcheck {
		p.validate(problems)
	}
	for _, p := range s.Requires {
		p.validate(problems)
		if p.Stable != 0 {
			problems.Addf(p.Place, p.Key+".stable", "what a service requires only has to succeed once; remove stable")
		}
	}
}

func (s Secret) validate(bad func(string, ...any)) {
	given := slices.DeleteFunc([]string{s.File, s.Env, s.Credential}, func(from string) bool { return from == "" })
	switch {
	case len(given) != 1:
		bad("expected exactly one of file, env and credential")
	case s.Credential != "" && (strings.Contains(s.Credential, "/") || s.Credential == "." || s.Credential == ".."):
		bad("credential: expected a name as in LoadCredential=NAME:PATH of a unit, got %q", s.Credential)
	}
}
