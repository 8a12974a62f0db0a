package nodefile_test

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
)

// FuzzParse: nothing makes Parse panic or hang, every problem says where it
// is, and what is accepted can be relied on.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "images: {tag: v1}\n", "profile: none\nservices:\n  aa: {image: a:1, depends_on: [bb], group: x, stop_grace_period: 2s}\n  bb: {image: b:2, group: x}\n",
		"images: {tag: v1}\nnetwork: openvswitch\nservices:\n  libvirt:\n    volumes: ['/a:/b:ro', {source: x, target: /y}]\n    healthcheck: [{tcp: 'a:1', interval: 2s}]\n",
		"vars: &v {a: *v}\n", "a: &a [*b]\nb: &b [*a]\n", "keep_generations: 1\n---\nkeep_generations: 2\n", "? [a]\n: b\n", "services: {~: }\n", "\t", "\xff\xfe\x00",
		"x: &a [1,1]\ny: &b [*a,*a]\nvars: [*b,*b,*b]\n", "vars: {<<: {a: 1}}\n", strings.Repeat("[", 300), strings.Repeat("a:\n ", 50),
		"services:\n  libvirt: {ulimits: [{name: nofile, soft: -1}], config: [{content: x, dest: /a, owner: a, perm: '0600'}], guests: {protect: false}}\n",
		"services:\n  libvirt: {requires: [{amqp: 'amqp://a:1', ca_file: /a, timeout: 1s}, {http: ''}]}\n",
		"services:\n  libvirt: {dimensions: {mem_limit: 4g, memswap_limit: -1, cpu_quota: -1, cpuset_cpus: '0-3,8', blkio_weight: 10}}\n",
		"services:\n  libvirt: {config: [{source: '/a/*', dest: /b/, preserve_properties: true, merge: true}, {content: '', dest: /c, owner: a, perm: '0600', optional: true}], permissions: [{path: /d, owner: a, recurse: true, exclude: ['^x']}]}\n",
		"services:\n  libvirt: {security_opt: [no-new-privileges, 'seccomp:/p', apparmor=unconfined], volumes: [{target: /t, size: 64m, mode: '0700'}]}\n",
		"services:\n  libvirt: {dimensions: {mem_limit: 1.5e9zz, kernel_memory: 1, ulimits: []}}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		node, err := nodefile.Parse("node.yaml", data, profiles, nodefile.Change{})
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "node.yaml:") && !strings.HasPrefix(line, "profile ") {
					t.Errorf("problem without a place: %q\nin: %q", line, err)
				}
			}
			return
		}
		checkNode(t, node)
	})
}

func checkNode(t *testing.T, node *nodefile.Node) {
	order := node.Order()
	if len(order) != len(node.Services) || len(order) == 0 || node.KeepGenerations < 1 {
		t.Errorf("order %q of %d services, keep %d", order, len(node.Services), node.KeepGenerations)
	}
	for i, name := range order {
		s := node.Services[name]
		for _, dep := range s.DependsOn {
			if !slices.Contains(order[:i], dep) {
				t.Errorf("%s comes before %s", name, dep)
			}
		}
		if len(name) < 2 || strings.ContainsAny(name, "/ ,") || name[0] == '.' || !strings.ContainsAny(s.Image, ":@") || s.Disabled || s.StopGracePeriod < 0 {
			t.Errorf("service %q: %+v", name, s)
		}
		seen := map[string]bool{}
		for _, m := range s.Volumes {
			target := "mount " + path.Clean(m.Target)
			if !path.IsAbs(m.Target) || seen[target] || m.Key == "" || m.Line == 0 {
				t.Errorf("mount %+v", m)
			}
			seen[target] = true
		}
		for _, c := range s.Config {
			dest := "config " + path.Clean(c.Dest)
			if c.Source != "" && strings.HasSuffix(c.Dest, "/") {
				dest = "config " + path.Join(c.Dest, path.Base(c.Source))
			}
			if !path.IsAbs(c.Dest) || seen[dest] || c.Key == "" || c.Line == 0 || (c.Owner == "" || c.Perm == "") != c.PreserveProperties {
				t.Errorf("config %+v", c)
			}
			seen[dest] = true
		}
		if d, key, err := s.Dimensions.Parse(); err != nil || d.MemLimit < 0 || d.MemswapLimit < -1 {
			t.Errorf("dimensions %+v: %s: %v", s.Dimensions, key, err)
		}
		for _, p := range s.Healthcheck {
			if min(p.Interval, p.StartPeriod, p.Timeout) <= 0 || p.Stable < 0 || p.Key == "" {
				t.Errorf("probe %+v", p)
			}
		}
	}
}

// Files that are small and mean a lot of work end soon.
func TestHostileYAML(t *testing.T) {
	lists := "config: &c\n- {overrides: &o [" + strings.Repeat("a,", 1000) + "]}\n" + strings.Repeat("- {overrides: *o}\n", 1000)
	bomb := own(lists) + strings.Repeat("  X: {config: *c}\n", 1)
	for i := range 1000 {
		bomb += "  s" + strings.Repeat("x", i%7) + strings.Repeat("y", i/7) + ": {config: *c}\n"
	}
	laughs := "vars:\n  a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		laughs += "  a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + strings.Repeat("*a"+string(rune('0'+i))+",", 10) + "]\n"
	}
	for name, text := range map[string]string{
		"laughs":      laughs,
		"lists":       bomb,
		"deep list":   "vars: {a: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}\n",
		"too deep":    "vars: {a: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}\n",
		"never ends":  strings.Repeat("[", 100_000),
		"cycle of 2":  "vars: {a: &a [&b [*a]], b: *b}\n",
		"cycle below": "services: &s {aa: *s}\n",
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan error, 1)
			go func() { _, err := parse(text); done <- err }()
			select {
			case err := <-done:
				if err == nil || !strings.HasPrefix(err.Error(), "node.yaml:") && !strings.HasPrefix(err.Error(), "profile compute:") {
					t.Errorf("got %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("it hangs")
			}
		})
	}
}
