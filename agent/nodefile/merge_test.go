package nodefile_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
)

// over parses a node file that lays these fields over the profile's libvirt.
func over(t *testing.T, fields string) nodefile.Service {
	t.Helper()
	text := "images: {tag: v1}\nservices:\n  libvirt:\n    " + strings.ReplaceAll(fields, "\n", "\n    ") + "\n"
	node, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return node.Services["libvirt"]
}

func mounts(s nodefile.Service) (list []string) {
	for _, m := range s.Volumes {
		list = append(list, fmt.Sprint(m.Source, ":", m.Target, " ", m.ReadOnly, m.Propagation))
	}
	return list
}

func TestMerge(t *testing.T) {
	same := []string{"/dev:/dev false", "data:/var/lib/libvirt false", "/run:/run falseshared"}
	command := []string{"libvirtd", "-l"}
	for name, c := range map[string]struct {
		fields string
		field  func(nodefile.Service) any
		want   any
	}{
		"nothing":                 {"", func(s nodefile.Service) any { return mounts(s) }, same},
		"mount added":             {"volumes: ['/x:/y:ro,rslave']", func(s nodefile.Service) any { return mounts(s) }, append(slices.Clone(same), "/x:/y truerslave")},
		"mount replaced":          {"volumes: [{source: other, target: /run/}]", func(s nodefile.Service) any { return mounts(s) }, []string{same[0], same[1], "other:/run/ false"}},
		"tmpfs":                   {"volumes: [/run]", func(s nodefile.Service) any { return mounts(s) }, []string{same[0], same[1], ":/run false"}},
		"mounts of nothing":       {"volumes:", func(s nodefile.Service) any { return mounts(s) }, same},
		"mounts of an empty list": {"volumes: []", func(s nodefile.Service) any { return mounts(s) }, same},
		"config replaced whole": {"config: [{content: x, dest: /etc/b, owner: nova, perm: '0644'}]", func(s nodefile.Service) any {
			return []string{s.Config[0].Template, s.Config[1].Template, *s.Config[1].Content}
		}, []string{"a", "", "x"}},
		"ulimit by name": {"ulimits: [{name: memlock, soft: -1, hard: -1}]", func(s nodefile.Service) any {
			return []int64{s.Ulimits[0].Soft, s.Ulimits[1].Soft, int64(len(s.Ulimits))}
		}, []int64{1, -1, 2}},
		"environment by key":     {"environment: {B: three, C: ''}", func(s nodefile.Service) any { return s.Environment }, map[string]string{"A": "one", "B": "three", "C": ""}},
		"environment of nothing": {"environment:", func(s nodefile.Service) any { return s.Environment }, map[string]string{"A": "one", "B": "two"}},
		"health replaced":        {"healthcheck: [{unix: /s}]", func(s nodefile.Service) any { return len(s.Healthcheck) }, 1},
		"requires replaced": {"requires: [{amqp: 'amqp://a'}]", func(s nodefile.Service) any {
			p := s.Requires[0]
			return []time.Duration{p.Interval, p.StartPeriod, p.Stable, p.Timeout}
		}, []time.Duration{time.Second, 10 * time.Second, 0, 5 * time.Second}},
		"health of an empty list": {"healthcheck: []", func(s nodefile.Service) any { return len(s.Healthcheck) }, 0},
		"health of nothing":       {"healthcheck:", func(s nodefile.Service) any { return len(s.Healthcheck) }, 2},
		"command replaced":        {"command: [a]", func(s nodefile.Service) any { return s.Command }, []string{"a"}},
		"command of nothing":      {"command:", func(s nodefile.Service) any { return s.Command }, command},
		"an alias of nothing":     {"user: &n\ncommand: *n", func(s nodefile.Service) any { return s.Command }, command},
		"empty command":           {"command: []", func(s nodefile.Service) any { return s.Command }, []string{}},
		"explicit false":          {"privileged: false", func(s nodefile.Service) any { return s.Privileged }, false},
		"not said":                {"user: a", func(s nodefile.Service) any { return s.Privileged }, true},
		"guests' part":            {"pid: host\nguests: {protect: true}", func(s nodefile.Service) any { return []any{*s.Guests.Protect, s.Guests.List} }, []any{true, []string{"virsh", "list"}}},
		"the canary's part": {"guests: {canary: {start: [a]}}", func(s nodefile.Service) any {
			return []any{s.Guests.Canary.Timeout, s.Guests.Canary.Start, s.Guests.List}
		}, []any{time.Minute, []string{"a"}, []string{"virsh", "list"}}},
		"text of numbers": {"environment: {B: 0600, C: yes}", func(s nodefile.Service) any { return s.Environment }, map[string]string{"A": "one", "B": "0600", "C": "yes"}},
		"defaults": {"", func(s nodefile.Service) any {
			return []string{s.PID, s.IPC, s.Cgroup, s.NetworkMode, s.Restart, s.Config[0].Format}
		}, []string{"private", "private", "private", "host", "always", "text"}},
		"default times": {"", func(s nodefile.Service) any {
			p := s.Healthcheck[0]
			return []time.Duration{s.StopGracePeriod, p.Interval, p.StartPeriod, p.Stable, p.Timeout}
		}, []time.Duration{60e9, 3e9, 60e9, 2e9, 10e9}},
		"zero times": {"stop_grace_period: 0s\nhealthcheck: [{tcp: 'a:1', stable: 0s}]", func(s nodefile.Service) any { return []time.Duration{s.StopGracePeriod, s.Healthcheck[0].Stable} }, []time.Duration{0, 0}},
		"image":      {"image: mine:2", func(s nodefile.Service) any { return s.Image }, "mine:2"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.field(over(t, c.fields)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

// What is found wrong later names the place where the entry was written.
func TestOrigins(t *testing.T) {
	s := over(t, "volumes: ['/x:/y', '/z:/run']\nconfig:\n- {content: x, dest: /etc/b, owner: nova, perm: '0644'}")
	for name, c := range map[string]struct {
		got  nodefile.Origin
		want string
	}{
		"the profile's":  {s.Volumes[0].Origin, "profile compute:12:15 services.libvirt.volumes[0]"},
		"laid over":      {s.Volumes[2].Origin, "node.yaml:4:24 services.libvirt.volumes[1]"},
		"added":          {s.Volumes[3].Origin, "node.yaml:4:15 services.libvirt.volumes[0]"},
		"file, profile":  {s.Config[0].Origin, "profile compute:15:9 services.libvirt.config[0]"},
		"file, own":      {s.Config[1].Origin, "node.yaml:6:7 services.libvirt.config[0]"},
		"probe, profile": {s.Healthcheck[1].Origin, "profile compute:19:9 services.libvirt.healthcheck[1]"},
		"limit, profile": {s.Ulimits[1].Origin, "profile compute:13:49 services.libvirt.ulimits[1]"},
	} {
		if got := c.got.String() + " " + c.got.Key; got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestPlace(t *testing.T) {
	node, err := parse("images: {tag: v1}\nvars: {a: {b: [1]}}\nservices:\n  bridge:\n    user: a\n")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"services.bridge.user":               "node.yaml:5:5",
		"services.bridge.image":              "profile compute:23:12", // the profile has it exactly
		"services.bridge.volumes[3].source":  "node.yaml:4:3",         // nobody has it: the nearest above
		"services.libvirt.volumes[2].source": "profile compute:12:51", // nearer than services: of the node file
		"services.bridge":                    "node.yaml:4:3",
		"vars.a.b":                           "node.yaml:2:12",
		"secrets.x":                          "node.yaml",
	} {
		if got := node.Place(key).String(); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}

func TestNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		text      string
		order     []string
		dependsOn []string
		group     string
	}{
		"default":         {"", []string{"bridge", "libvirt", "compute"}, []string{"libvirt", "bridge"}, "virt"},
		"openvswitch":     {"network: openvswitch", []string{"libvirt", "switch", "compute"}, []string{"libvirt", "switch"}, "virt"},
		"disabled":        {"services: {libvirt: {disabled: true}}", []string{"bridge", "compute"}, []string{"bridge"}, "virt"},
		"switched on":     {"vars: {extra_enabled: true}", []string{"bridge", "libvirt", "compute", "extra"}, []string{"libvirt", "bridge"}, "virt"},
		"switched off":    {"vars: {extra_enabled: false}", []string{"bridge", "libvirt", "compute"}, []string{"libvirt", "bridge"}, "virt"},
		"on, disabled":    {"vars: {extra_enabled: true}\nservices: {extra: {disabled: true}}", []string{"bridge", "libvirt", "compute"}, []string{"libvirt", "bridge"}, "virt"},
		"off, disabled":   {"services: {extra: {disabled: true}}", []string{"bridge", "libvirt", "compute"}, []string{"libvirt", "bridge"}, "virt"},
		"off, another":    {"services: {extra: {image: mine}}", []string{"bridge", "libvirt", "compute", "extra"}, []string{"libvirt", "bridge"}, "virt"},
		"own words":       {"services: {compute: {depends_on: [], group: net}, bridge: {group: net}}", []string{"bridge", "compute", "libvirt"}, []string{}, "net"},
		"in no group":     {"services: {compute: {group: ''}}", []string{"bridge", "libvirt", "compute"}, []string{"libvirt", "bridge"}, ""},
		"profile's group": {"services: {mine: {image: x, depends_on: [compute], group: virt}}", []string{"bridge", "libvirt", "compute", "mine"}, []string{"libvirt", "bridge"}, "virt"},
		"a bare key":      {"services:\n  bridge:\n", []string{"bridge", "libvirt", "compute"}, []string{"libvirt", "bridge"}, "virt"},
	} {
		t.Run(name, func(t *testing.T) {
			node, err := parse("images: {tag: v1}\n" + c.text + "\n")
			if err != nil {
				t.Fatal(err)
			}
			s := node.Services["compute"]
			if got := node.Order(); !slices.Equal(got, c.order) || len(node.Services) != len(c.order) {
				t.Errorf("order %q, want %q", got, c.order)
			}
			if !slices.Equal(s.DependsOn, c.dependsOn) || s.Group != c.group {
				t.Errorf("depends on %q, group %q; want %q, %q", s.DependsOn, s.Group, c.dependsOn, c.group)
			}
		})
	}
	// What the node file itself says of a service that is left out is a mistake.
	_, err := parse("images: {tag: v1}\nservices: {libvirt: {disabled: true}, compute: {depends_on: [libvirt]}}\n")
	if want := `node.yaml:2:49: services.compute.depends_on: this node has no service "libvirt"`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestVars(t *testing.T) {
	node, err := parse("images: {tag: v1}\nvars: {debug: true, mine: [1, ~]}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"debug": true, "host": nil, "mine": []any{1, nil}, "extra_enabled": false}
	if !reflect.DeepEqual(node.Vars, want) || !slices.Equal(node.OwnVars, []string{"debug", "mine"}) || !slices.Equal(node.KnownVars, []string{"debug", "extra_enabled", "host"}) {
		t.Errorf("got %v, own %q, known %q", node.Vars, node.OwnVars, node.KnownVars)
	}
}
