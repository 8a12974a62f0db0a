package upgrade

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

// Services are written as for TestGroups; those in "with" are replaced with their
// dependencies, and those in "changed" have another command.
func TestSelectReplacements(t *testing.T) {
	for name, c := range map[string]struct{ services, with, changed, want string }{
		"nothing changes":                   {"libvirt compute>libvirt", "compute", "", ""},
		"the dependency changes":            {"libvirt compute>libvirt agent", "compute", "libvirt", "libvirt compute"},
		"the dependent changes":             {"libvirt compute>libvirt", "compute", "compute", "compute"},
		"it does not ask for that":          {"libvirt compute>libvirt", "", "libvirt", "libvirt"},
		"a dependency of its dependency":    {"a b>a c>b", "b c", "a", "a b c"},
		"a dependency of one that does not": {"a b>a c>b", "c", "a", "a"},
		"another service changes":           {"libvirt agent compute>libvirt", "compute", "agent", "agent"},
	} {
		t.Run(name, func(t *testing.T) {
			from := generation.Generation{Number: 1, Services: services(strings.ReplaceAll(c.services, " ", "! ") + "!")}
			tx := transaction{from: from, to: generation.Generation{Number: 2}, target: &target.Target{}}
			for _, s := range from.Services {
				s.Origin = 0
				s.ReplaceWithDependencies = has(c.with, s.Name)
				if has(c.changed, s.Name) {
					s.Argv = []string{"changed"}
				}
				tx.target.Services = append(tx.target.Services, s)
			}
			tx.selectReplacements()
			var got []string
			for _, s := range tx.to.Services {
				if s.Origin == 2 {
					got = append(got, s.Name)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("replaced %v, want %q", got, c.want)
			}
		})
	}
}

func has(words, word string) bool {
	for w := range strings.FieldsSeq(words) {
		if w == word {
			return true
		}
	}
	return false
}

// A container that has the number of the generation that is given up, but not the name of a
// staged one, was not staged for it.
func TestUnstageSparesOthers(t *testing.T) {
	serves, staged, other := made("a", 2), made("b", 2), made("c", 1)
	serves.Spec.Name, staged.Spec.Name = "a", node.StagedName("b", 2)
	e := &shelf{all: []containers.Container{serves, staged, other}}
	tx := newTransaction(&node.Node{Root: t.TempDir(), Host: idle(t), Engine: e}, nil, generation.Generation{Number: 1})
	tx.to.Number = 2
	if err := tx.unstage(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(e.did, ", "); got != "stop b2, remove b2" {
		t.Errorf("the engine was told: %s", got)
	}
}

// A gate that another opened is noticed before anything is stopped, whichever group its
// service is in.
func TestAStagedGateStaysClosed(t *testing.T) {
	tx := newTransaction(&node.Node{Root: t.TempDir(), Host: idle(t), Engine: &shelf{}}, nil, generation.Generation{Number: 1})
	tx.to = generation.Generation{Number: 2, Services: []generation.Service{{Name: "a", Origin: 1}, {Name: "b", Origin: 2}}}
	dir := tx.node.Store().Gate(2, "b")
	if err := gate.Make(dir); err != nil {
		t.Fatal(err)
	}
	if err := gate.Open(dir); err != nil {
		t.Fatal(err)
	}
	_, err := tx.newTasks(t.Context(), group{{name: "b", new: tx.to.Services[1]}})
	for name, err := range map[string]error{"before the first cutover": tx.checkAgain(t.Context()), "in the cutover": err} {
		if err == nil || !strings.Contains(err.Error(), "the staged b: the container changed its gate: "+dir+"/open exists") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
