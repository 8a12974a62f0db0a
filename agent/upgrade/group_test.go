package upgrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// services are written as NAME[+GROUP][>DEPENDENCY,…], with ! at the end if the
// container stays.
func services(text string) (list []generation.Service) {
	for word := range strings.FieldsSeq(text) {
		word, stays := strings.CutSuffix(word, "!")
		word, deps, _ := strings.Cut(word, ">")
		name, group, _ := strings.Cut(word, "+")
		s := generation.Service{Name: name, Group: group, Origin: 2}
		if deps != "" {
			s.DependsOn = strings.Split(deps, ",")
		}
		if stays {
			s.Origin = 1
		}
		list = append(list, s)
	}
	return list
}

func TestGroups(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"each alone":                {"a b", "a b", "a | b"},
		"start order":               {"b a", "b a", "b | a"},
		"one stays":                 {"a b c", "a b! c", "a | c"},
		"all stay":                  {"a b", "a! b!", ""},
		"a group":                   {"a b c", "a+x b c+x", "a, c | b"},
		"two groups":                {"a b c d", "a+x b+y c+x d+y", "a, c | b, d"},
		"with one that stays":       {"a b", "a+x! b+x", "b"},
		"around one that stays":     {"a b c", "a+x b+x! c+x", "a, c"},
		"a group of one":            {"a b", "a+x b", "a | b"},
		"joins a group":             {"a+x b+x c", "a+x b+x c+x", "a, b, c"},
		"leaves its group":          {"a+x b+x", "a+x b", "a | b"},
		"removed from its group":    {"a+x b+x", "a+x", "a | b"},
		"new":                       {"", "a b", "a | b"},
		"removed, dependents first": {"a b c d", "a! c", "c | d | b"},
		"all removed":               {"a b", "", "b | a"},
		"renamed":                   {"a b", "a! c", "c, b"},
		"the first is renamed":      {"a b>a", "c b>c", "c, a | b"},
		"renamed in its group":      {"a+x b+x>a", "c+x b+x>c", "c, a, b"},
		"one takes three places":    {"a b>a c>b d", "e d", "e, a, b, c | d"},
		"three take one place":      {"a", "b c d", "b, a | c | d"},
		"a mate depends on another": {"a b c", "a+x b c+x>b", "b | a, c"},
		"a mate on one that stays":  {"a b c", "a+x b! c+x>b", "a, c"},
		"after the group, too":      {"a b c d", "a+x b c>a d+x>b", "b | a, d | c"},
		"after each other":          {"a b c d", "a+x b+y c+y>a d+x>b", "a, d | b, c"},
	} {
		t.Run(name, func(t *testing.T) {
			tx := transaction{from: generation.Generation{Number: 1, Services: services(c.from)}, to: generation.Generation{Number: 2, Services: services(c.to)}}
			var got []string
			for _, g := range tx.groups() {
				got = append(got, strings.Join(g.names(), ", "))
				for _, m := range g {
					_, was := tx.from.Service(m.name)
					_, is := tx.to.Service(m.name)
					if (m.old.Name == m.name) != was || (m.new.Name == m.name) != is {
						t.Errorf("%s: old %q, new %q", m.name, m.old.Name, m.new.Name)
					}
				}
			}
			if got := strings.Join(got, " | "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestStopsGuestHost(t *testing.T) {
	libvirt := generation.Service{Name: "libvirt", Guests: &nodefile.Guests{}}
	for name, c := range map[string]struct {
		g    group
		want bool
	}{
		"replaced": {group{{name: "x"}, {name: "libvirt", old: libvirt, new: libvirt}}, true},
		"removed":  {group{{name: "libvirt", old: libvirt}}, true},
		"new":      {group{{name: "libvirt", new: libvirt}}, false},
		"none":     {group{{name: "x"}}, false},
		"lost":     {group{{name: "libvirt", new: libvirt, hosts: true}}, true},
	} {
		if got := c.g.stopsGuestHost(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	no, yes := false, true
	for name, c := range map[string]struct {
		old, new *nodefile.Guests
		want     bool
	}{
		"default":         {nil, &nodefile.Guests{}, true},
		"the newest word": {&nodefile.Guests{}, &nodefile.Guests{Protect: &no}, false},
		"and back":        {&nodefile.Guests{Protect: &no}, &nodefile.Guests{Protect: &yes}, true},
		"removed":         {&nodefile.Guests{}, nil, true},
		"removed, not":    {&nodefile.Guests{Protect: &no}, nil, false},
		"starts none":     {nil, nil, false},
	} {
		m := member{old: generation.Service{Guests: c.old}, new: generation.Service{Guests: c.new}}
		if got := m.protects(); got != c.want {
			t.Errorf("protects, %s: %v", name, got)
		}
	}
	// The record of what runs is lost.
	lost := member{name: "agent", new: generation.Service{Name: "agent"}, hosts: true}
	if !lost.protects() || lost.running().Guests == nil || lost.running().Name != "agent" {
		t.Errorf("lost: %+v", lost.running())
	}
	if lost.new.Guests = (&nodefile.Guests{Protect: &no}); lost.protects() {
		t.Error("lost: protects although it must not")
	}
}

func TestSignalNumber(t *testing.T) {
	for name, want := range map[string]unix.Signal{
		"SIGTERM": unix.SIGTERM, "TERM": unix.SIGTERM, "term": unix.SIGTERM, "SIGKILL": unix.SIGKILL, "QUIT": unix.SIGQUIT, "15": unix.SIGTERM, "9": unix.SIGKILL,
		"SIGRTMIN+3": 37, "RTMIN": 34, "SIGRTMAX-1": 63, "RTMAX": 64, "37": 37,
		"": unix.SIGTERM, "0": unix.SIGTERM, "-9": unix.SIGTERM, "65": unix.SIGTERM, "9x": unix.SIGTERM, "SIGNONE": unix.SIGTERM,
	} {
		if got := signalNumber(name); got != want {
			t.Errorf("%q is %d, want %d", name, got, want)
		}
	}
}

func TestNextNumber(t *testing.T) {
	engine := &shelf{}
	n := &node.Node{Root: t.TempDir(), Engine: engine}
	number := func(want int) {
		t.Helper()
		if got, err := nextNumber(t.Context(), n); err != nil || got != want {
			t.Errorf("got %d, %v, want %d", got, err, want)
		}
	}
	number(1)
	for _, path := range []string{n.Store().Path(4), n.Journals()} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	number(5)
	// An upgrade that failed has used its number.
	if err := os.WriteFile(filepath.Join(n.Journals(), "000007.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	number(8)
	// The state directory may have been lost, while the containers were not.
	engine.all = []containers.Container{made("a", 12), made("b", 3)}
	number(13)
	for _, label := range []string{"latest", "-1", "9223372036854775807", ""} { // an image may have any
		engine.all[0].Spec.Labels[node.LabelGeneration] = label
		number(8)
	}
}
