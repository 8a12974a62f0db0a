package upgrade

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

// kollaEngine is an engine that lists containers by their labels.
type kollaEngine struct{ wards }

func (e *kollaEngine) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	return slices.DeleteFunc(slices.Clone(e.all), func(c containers.Container) bool { return !containers.HasLabels(c.Spec.Labels, labels) }), nil
}

// kollaNode is a node on which kolla-ansible's containers kolla_a and iscsid run. Only the first is
// of generation 0, as service a, and has the policy of one that systemd starts.
func kollaNode(t *testing.T) (*cutoverNode, *kollaEngine) {
	t.Helper()
	n := newCutoverNode(t)
	engine := &kollaEngine{}
	for _, name := range []string{"kolla_a", "iscsid"} {
		engine.all = append(engine.all, containers.Container{ID: "id-" + name, State: containers.StateRunning, Spec: containers.Spec{Name: name, Restart: containers.RestartNo}})
	}
	engine.all[0].PID = n.start("/docker/id-kolla_a", loop).Process.Pid
	n.node.Engine = engine
	err := n.node.Store().SetAdopted(generation.Adopted{
		Generation: generation.Generation{Services: []generation.Service{{Name: "a"}}},
		Containers: map[string]generation.Container{"a": {ID: "id-kolla_a", Name: "kolla_a", Restart: containers.RestartNo}},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.node.Engine = n.node.Recognising()
	return n, engine
}

// A container that was left to kolla-ansible after the node was given back is none of the removed
// services, although it has the name of one.
func TestSecondAdoptionLeavesAContainer(t *testing.T) {
	n, _ := kollaNode(t)
	given := generation.Generation{Number: 2, Services: []generation.Service{{Name: "a"}, {Name: "iscsid"}}}
	next := generation.Generation{Number: 3, Services: []generation.Service{{Name: "a", Origin: 3}}}
	write := func(g generation.Generation) error {
		return n.node.Store().Write(g, nil, func(string) error { return nil })
	}
	if err := errors.Join(write(given), write(next), n.node.Store().SetCurrent(2)); err != nil {
		t.Fatal(err)
	}
	journalOf(t, n.node, 3)
	_, tx, _, err := interrupted(t.Context(), n.node)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.journal.Close()
	tx.to = next
	current, err := n.node.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []generation.Generation{tx.from, current} {
		tx.from = from
		var names []string
		for _, g := range tx.groups() {
			names = append(names, g.names()...)
		}
		if got := strings.Join(names, " "); from.Number != 2 || got != "a" {
			t.Errorf("from generation %d, cut over are %q", from.Number, got)
		}
	}
}

// What an earlier generation 0 left may have the name that a container of this one gets after the
// commit, when there is no way back. One that has it, or returns, needs none.
func TestNameOfAKeptContainer(t *testing.T) {
	for name, c := range map[string]struct {
		own     string // name of the container of generation 0
		taken   bool   // by another container
		returns bool
		refused bool
	}{
		"free":            {own: "iscsid"},
		"taken":           {own: "iscsid", taken: true, refused: true},
		"it has the name": {own: "iscsid-g0"},
		"it has no need":  {own: "kolla_iscsid", taken: true},
		"it returns":      {own: "iscsid", taken: true, returns: true},
		"it was removed":  {taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			n, engine := kollaNode(t)
			engine.all[1].Spec.Name = c.own
			if c.own == "" {
				engine.all = engine.all[:1]
			}
			if c.taken {
				engine.all = append(engine.all, containers.Container{ID: "left", Spec: containers.Spec{Name: "iscsid-g0"}})
			}
			a, err := n.node.Store().Adopted()
			if err != nil {
				t.Fatal(err)
			}
			a.Containers["iscsid"] = generation.Container{ID: "id-iscsid", Name: "iscsid"}
			if err := n.node.Store().SetAdopted(a); err != nil {
				t.Fatal(err)
			}
			tx := newTransaction(n.node, nil, generation.Generation{Number: 2})
			tx.target = &target.Target{Returns: c.returns}
			err = tx.freeKeptNames(t.Context())
			if c.refused {
				err = tx.check(t.Context())
			}
			if refused := err != nil && strings.HasSuffix(err.Error(), "remove it with `docker rm iscsid-g0`"); refused != c.refused {
				t.Errorf("%v", err)
			}
		})
	}
}

// A container of generation 0 that was started manually runs before a rollback to generation 0, and
// after it. In an adoption it must not run afterwards.
func TestStartedBeforeItReturns(t *testing.T) {
	n, _ := kollaNode(t)
	for origin, fails := range map[int]bool{0: false, 3: true} {
		tx := newTransaction(n.node, nil, generation.Generation{Number: 2, Services: []generation.Service{{Name: "a", Origin: 2}}})
		tx.to = generation.Generation{Number: 3, Services: []generation.Service{{Name: "a", Origin: origin}}}
		var err error
		if tx.previous, err = tx.running(t.Context(), group{{name: "a"}}); err != nil || !slices.Equal(tx.previous["a"], []string{"id-kolla_a"}) {
			t.Fatalf("%q, %v", tx.previous, err)
		}
		tx.stopped["id-kolla_a"] = time.Unix(1, 0)
		if err := tx.noneStartedAgain(t.Context()); (err != nil) != fails {
			t.Errorf("its service is of generation %d: %v", origin, err)
		}
	}
}

// A rollback to generation 0 is undone without its record, too: kolla-ansible's container stops before
// that of kollet runs again. If kollet did not run the service before, kolla-ansible's is left alone.
func TestReturnUndoneWithoutItsRecord(t *testing.T) {
	for origin, want := range map[int]string{
		2: "stop id-kolla_a, update id-kolla_a no, update a2 always, start a2",
		0: "update id-kolla_a no, start id-kolla_a",
	} {
		n, engine := kollaNode(t)
		own := made("a", 2)
		own.State, own.Spec.Labels[node.LabelNode] = containers.StateExited, n.node.State()
		engine.all = append(engine.all, own)
		old := generation.Service{Name: "a", Origin: origin}
		old.Spec.Restart = containers.RestartAlways
		tx := newTransaction(n.node, nil, generation.Generation{Number: 2, Services: []generation.Service{old}})
		tx.to.Number = 3
		tx.to.Services = tx.standIns([]journal.Record{started(journal.CutOver, "a")})
		tx.previous["a"] = []string{map[int]string{2: own.ID, 0: "id-kolla_a"}[origin]}
		if err := tx.revertCutover(t.Context(), tx.groupOf([]string{"a"})); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(engine.did, ", "); got != want {
			t.Errorf("from a container of generation %d: %s\nwant %s", origin, got, want)
		}
	}
}

// The recovery of an adoption ends only what was told to stop, which the policy of a container that
// systemd starts does not say.
func TestToldToStopBeforeItsUnitWasHeld(t *testing.T) {
	n, _ := kollaNode(t)
	n.write("etc/systemd/system/kolla-kolla_a-container.service", "")
	tx := newTransaction(n.node, nil, generation.Generation{})
	tx.recovering = true
	tx.previous["a"] = []string{"id-kolla_a"}
	told := func(want string) {
		t.Helper()
		if got, err := tx.toldToStop(t.Context(), group{{name: "a"}}); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	told("")
	c, err := n.node.Engine.Inspect(t.Context(), "id-kolla_a")
	if err := errors.Join(err, n.node.Hold(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	told("a")
}

// A container of generation 0 that was removed while an adoption ran has left its unit held: without
// that, kolla-ansible can create it again.
func TestRemovedBeforeItReturns(t *testing.T) {
	n, engine := kollaNode(t)
	n.write("etc/systemd/system/kolla-kolla_a-container.service", "")
	c, err := n.node.Engine.Inspect(t.Context(), "id-kolla_a")
	if err := errors.Join(err, n.node.Hold(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	engine.all = nil
	from, err := n.node.Current()
	if err != nil {
		t.Fatal(err)
	}
	tx := newTransaction(n.node, nil, from)
	tx.previous["a"] = []string{"id-kolla_a"}
	if err := tx.revive(t.Context(), member{name: "a", old: from.Services[0]}, false); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(n.dir + "/etc/systemd/system/kolla-kolla_a-container.service.d"); err == nil {
		t.Error("the unit is held")
	}
}

// Neither a rollback of an adoption nor a return to generation 0 advises an upgrade, which is refused.
func TestRecreateOnANodeOfKolla(t *testing.T) {
	n, engine := kollaNode(t)
	n.node.Name = "compute-1"
	for _, number := range []int{0, 4} { // before it is taken over, and after it was given back
		tx := newTransaction(n.node, nil, generation.Generation{Number: number, Services: []generation.Service{{Name: "a"}}})
		if got, want := tx.recreate(), "`kolla-ansible deploy --limit compute-1` creates a new container, and `kollet adopt` then takes the node over"; got != want {
			t.Errorf("generation %d: %s", number, got)
		}
	}
	engine.all = nil
	tx := newTransaction(n.node, nil, generation.Generation{Number: 3})
	tx.to, tx.target = generation.Generation{Number: 4, Services: []generation.Service{{Name: "a"}}}, &target.Target{}
	j, err := journal.Create(n.node.Journals(), journal.Record{To: 4}, n.node.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	tx.journal = j
	if err := tx.tidy(t.Context()); err != nil {
		t.Error(err)
	}
	if tx.broken == nil || !strings.HasSuffix(tx.broken.Error(), "; `kolla-ansible deploy --limit compute-1` creates a new container") {
		t.Errorf("got %v", tx.broken)
	}
}

// A service that was added after the node was taken over has nothing in generation 0 to follow it. Its
// guests must not be left alone; of others the operator is told.
func TestServiceAddedBeforeAReturn(t *testing.T) {
	n, _ := kollaNode(t)
	n.node.Name = "compute-1"
	j, err := journal.Create(n.node.Journals(), journal.Record{To: 3}, n.node.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var notes []string
	n.node.Report = func(e node.Event) { notes = append(notes, e.Service+": "+e.Text) }
	a, libvirt := generation.Service{Name: "a"}, generation.Service{Name: "nova-libvirt", Guests: &nodefile.Guests{}}
	tx := newTransaction(n.node, j, generation.Generation{Number: 2, Services: []generation.Service{a, libvirt}})
	tx.target = &target.Target{Services: []generation.Service{a}, Returns: true}
	if err := tx.checkNotReturning(true); err == nil || !strings.Contains(err.Error(), "generation 0 has no nova-libvirt") || !strings.Contains(err.Error(), "`kollet rollback 0 --force`") {
		t.Errorf("with guests: %v", err)
	}
	if len(notes) != 0 {
		t.Errorf("told: %q", notes)
	}
	if err := tx.checkNotReturning(false); err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "nova-libvirt: warning: generation 0 does not have it: it stops; ") {
		t.Errorf("without guests: %v, told %q", err, notes)
	}
}

// In a return each container gets its own name after the commit.
func TestOwnNameIsTaken(t *testing.T) {
	for name, labels := range map[string]map[string]string{"by another container": {}, "by kollet's, which gives it back": {node.LabelNode: ""}} {
		t.Run(name, func(t *testing.T) {
			n, engine := kollaNode(t)
			if _, own := labels[node.LabelNode]; own {
				labels[node.LabelNode] = n.node.State()
			}
			engine.all[0].Spec.Name = "renamed"
			engine.all = append(engine.all, containers.Container{ID: "other", Spec: containers.Spec{Name: "kolla_a", Labels: labels}})
			tx := newTransaction(n.node, nil, generation.Generation{Number: 2})
			tx.target = &target.Target{Returns: true}
			err := tx.freeKeptNames(t.Context())
			if refused := err != nil && strings.HasSuffix(err.Error(), "remove it with `docker rm kolla_a`"); refused != (len(labels) == 0) {
				t.Errorf("%v", err)
			}
			engine.all = engine.all[1:] // kolla-ansible created it again: nothing gets the name
			if err := tx.freeKeptNames(t.Context()); err != nil {
				t.Errorf("generation 0 is not complete: %v", err)
			}
		})
	}
}
