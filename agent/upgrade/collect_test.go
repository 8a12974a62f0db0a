package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/fetch"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/needs"
)

// shelf is an engine that only lists and removes, and notes what it did.
type shelf struct {
	containers.Engine
	all    []containers.Container
	inUse  string           // image
	busy   map[string]error // containers that cannot be removed
	did    []string
	listed map[string]string
}

func (e *shelf) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	e.listed = labels
	return slices.DeleteFunc(slices.Clone(e.all), func(c containers.Container) bool {
		service, named := labels[node.LabelService]
		return named && (c.Spec.Labels[node.LabelService] != service || c.Spec.Labels[node.LabelGeneration] != labels[node.LabelGeneration])
	}), nil
}
func (e *shelf) Stop(_ context.Context, id string, _ time.Duration) error {
	e.did = append(e.did, "stop "+id)
	return nil
}
func (e *shelf) Remove(_ context.Context, id string) error {
	e.did = append(e.did, "remove "+id)
	return e.busy[id]
}
func (e *shelf) Update(_ context.Context, id, name string, restart containers.Restart) error {
	e.did = append(e.did, fmt.Sprintf("settle %s %s %s", id, name, restart))
	return nil
}
func (e *shelf) RemoveImage(_ context.Context, id string) error {
	if id == e.inUse {
		return fmt.Errorf("image %s is in use", id)
	}
	e.did = append(e.did, "image "+id)
	return nil
}

// made is the container of a service's generation.
func made(service string, number int) containers.Container {
	id := fmt.Sprintf("%s%d", service, number)
	return containers.Container{ID: id, Spec: containers.Spec{Name: id, Labels: map[string]string{node.LabelNode: "n", node.LabelService: service, node.LabelGeneration: strconv.Itoa(number)}}}
}

// record makes generations 1 to n: service a of each has an image of its own,
// b is that of generation 2 ever since.
func record(t *testing.T, nd *node.Node, n int) generation.Generation {
	t.Helper()
	var last generation.Generation
	for number := 1; number <= n; number++ {
		last = generation.Generation{Number: number, Services: []generation.Service{
			{Name: "a", Origin: number, Image: generation.Image{ID: fmt.Sprintf("img%d", number)}},
			{Name: "b", Origin: min(number, 2), Image: generation.Image{ID: fmt.Sprintf("imgB%d", min(number, 2))}},
		}}
		if err := nd.Store().Write(last, nil, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func TestCollectGenerations(t *testing.T) {
	for name, c := range map[string]struct {
		node   string
		pins   node.Pins
		inUse  string
		gone   []int
		images []string
	}{
		"keep 1":          {"keep_generations: 1\n", nil, "", []int{1, 3, 4}, []string{"img1", "img3", "img4", "imgB1"}}, // 2 is where b comes from
		"keep 3":          {"keep_generations: 3\n", nil, "", []int{1}, []string{"img1", "imgB1"}},
		"default":         {"{}\n", nil, "", []int{1}, []string{"img1", "imgB1"}},
		"keep many":       {"keep_generations: 9\n", nil, "", nil, nil},
		"unreadable":      {"keep_generations: [\n", nil, "", nil, nil},
		"no number":       {"keep_generations: 0\n", nil, "", nil, nil},
		"a guest's":       {"keep_generations: 1\n", node.Pins{"3": true}, "", []int{1, 4}, []string{"img1", "img4", "imgB1"}},
		"image elsewhere": {"keep_generations: 1\n", nil, "img3", []int{1, 3, 4}, []string{"img1", "img4", "imgB1"}},
	} {
		t.Run(name, func(t *testing.T) {
			engine := &shelf{inUse: c.inUse}
			nd := &node.Node{Root: t.TempDir(), Engine: engine}
			if err := os.MkdirAll(filepath.Dir(nd.NodeFilePath()), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(nd.NodeFilePath(), []byte(c.node), 0o600); err != nil {
				t.Fatal(err)
			}
			current := record(t, nd, 6)
			// A later one that was rolled back, and is kept for its guests, is no
			// business of this.
			if err := nd.Store().Write(generation.Generation{Number: 9}, nil, func(string) error { return nil }); err != nil {
				t.Fatal(err)
			}
			var gone Garbage
			if err := collectGenerations(t.Context(), nd, current, c.pins, &gone); err != nil {
				t.Fatal(err)
			}
			left, err := nd.Store().List()
			if err != nil || !slices.Contains(left, 9) || !slices.Contains(left, 6) || len(left) != 7-len(c.gone) {
				t.Errorf("left are %v, %v", left, err)
			}
			if !slices.Equal(gone.Generations, c.gone) || !slices.Equal(gone.Images, c.images) {
				t.Errorf("gone are %v and %q, want %v and %q", gone.Generations, gone.Images, c.gone, c.images)
			}
			if err := collectGenerations(t.Context(), nd, current, c.pins, &Garbage{}); err != nil {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// A generation that was rolled back is kept for its guests alone: it takes the place of none
// that a rollback could return to.
func TestCollectGivenUp(t *testing.T) {
	nd := &node.Node{Root: t.TempDir(), Engine: &shelf{}}
	if err := os.MkdirAll(filepath.Dir(nd.NodeFilePath()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(nd.NodeFilePath(), []byte("keep_generations: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	record(t, nd, 8)
	for number, outcome := range map[int]journal.Outcome{3: journal.Committed, 4: journal.RolledBack, 5: journal.RolledBack, 6: journal.Committed, 7: journal.Stuck, 8: journal.RolledBack} {
		j, err := journal.Create(nd.Journals(), journal.Record{From: 3, To: number}, time.Now)
		if err == nil && outcome == journal.Committed {
			err = j.Append(journal.Record{Event: journal.Commit})
		}
		if err == nil {
			err = j.Append(journal.Record{Event: journal.End, Outcome: outcome})
		}
		if err := errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
	}
	current, err := nd.Store().Load(6)
	if err != nil {
		t.Fatal(err)
	}
	if err := collectGenerations(t.Context(), nd, current, node.Pins{"5": true, "8": true}, &Garbage{}); err != nil {
		t.Fatal(err)
	}
	// Service b is that of 2, and guests run from 5 and 8.
	if left, err := nd.Store().List(); err != nil || !slices.Equal(left, []int{2, 3, 5, 6, 8}) {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A generation whose record cannot be read stops nothing, and costs no image
// that it may need.
func TestCollectAroundDamage(t *testing.T) {
	needs.Root(t)
	for name, damage := range map[string]func(manifest string) error{
		"torn": func(m string) error { return os.WriteFile(m, []byte(`{"number": 3, "serv`), 0o600) },
		"gone": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			engine := &shelf{all: []containers.Container{made("a", 6), made("b", 2), made("a", 5)}}
			nd := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: engine}
			var notes []string
			nd.Report = func(e node.Event) { notes = append(notes, e.Text) }
			if err := os.MkdirAll(filepath.Dir(nd.NodeFilePath()), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(nd.NodeFilePath(), []byte("keep_generations: 1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			current := record(t, nd, 6)
			// As 5 and 6 stay, nothing is lost with this one.
			again := current
			again.Number = 4
			if err := errors.Join(nd.Store().Remove(t.Context(), 4), nd.Store().Write(again, nil, func(string) error { return nil })); err != nil {
				t.Fatal(err)
			}
			if err := damage(filepath.Join(nd.Store().Path(3), "manifest.json")); err != nil {
				t.Fatal(err)
			}
			gone, err := Collect(t.Context(), nd, current)
			if err != nil || !slices.Equal(gone.Generations, []int{4}) || len(gone.Images) > 0 || !slices.Equal(gone.Containers, []string{"a5"}) {
				t.Errorf("gone are %+v, %v", gone, err)
			}
			if len(notes) != 1 || !strings.Contains(notes[0], "kept generation 3") || !strings.Contains(notes[0], nd.Store().Path(3)) {
				t.Errorf("said %q", notes)
			}
			if err := nd.Store().Remove(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			if gone, err = Collect(t.Context(), nd, current); err != nil || !slices.Equal(gone.Generations, []int{1}) || !slices.Contains(gone.Images, "img1") {
				t.Errorf("after the damage: %+v, %v", gone, err)
			}
		})
	}
}

func TestCollectContainers(t *testing.T) {
	engine := &shelf{all: []containers.Container{made("a", 6), made("b", 2), made("a", 5), made("b", 1), made("c", 5)}}
	nd := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: engine}
	got, err := Collect(t.Context(), nd, record(t, nd, 6))
	if err != nil || !slices.Equal(got.Containers, []string{"a5", "b1", "c5"}) || len(got.Pinned) > 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if did := strings.Join(engine.did, ", "); did != "stop a5, remove a5, stop b1, remove b1, stop c5, remove c5" {
		t.Errorf("did %s", did)
	}
	if engine.listed[node.LabelNode] != nd.State() {
		t.Errorf("asked for the containers of %q", engine.listed)
	}
}

func TestRetire(t *testing.T) {
	engine := &shelf{}
	nd := &node.Node{Host: idle(t), Engine: engine}
	guests := node.Pins{"a 5": true, "5": true}
	for _, c := range []containers.Container{made("a", 5), made("b", 5), made("a", 51)} {
		removed, err := retire(t.Context(), nd, c, generation.Service{}, guests)
		if err != nil || removed != (c.ID != "a5") {
			t.Fatal(c.ID, removed, err)
		}
	}
	if did := strings.Join(engine.did, ", "); did != "stop a5, settle a5 a-g5 no, stop b5, remove b5, stop a51, remove a51" {
		t.Errorf("did %s", did)
	}
	if !guests.Generation(5) || guests.Generation(6) || guests.Generation(51) {
		t.Error("generations are pinned wrongly")
	}
}

// Guests in a container that runs are moved out of it before it is stopped. If they
// cannot be, it keeps running.
func TestRetireSparesGuests(t *testing.T) {
	n := newCutoverNode(t)
	engine := &shelf{}
	n.node.Engine = engine
	first, qemu := n.start("/docker/a5", loop), n.start("/docker/a5", loop)
	n.list("/docker/a5", first, qemu)
	n.guest(qemu.Process.Pid, "born meanwhile")
	c := made("a", 5)
	c.State, c.PID = containers.StateRunning, first.Process.Pid
	removed, err := retire(t.Context(), n.node, c, madeFor(n.node, generation.Generation{}, c), nil)
	if err != nil || removed || len(engine.did) > 0 || ended(t, first) || ended(t, qemu) {
		t.Errorf("removed: %t, %v; the engine was told: %q", removed, err, engine.did)
	}
	if len(n.notes) != 1 || !strings.Contains(n.notes[0], "kept container a5") || !strings.Contains(n.notes[0], "would die with their container") {
		t.Errorf("said %q", n.notes)
	}
}

// A container that cannot be removed is kept and noted, and the others are removed. An
// engine that does not answer ends the collection.
func TestCollectBusyContainer(t *testing.T) {
	var notes []string
	engine := &shelf{
		all:  []containers.Container{made("a", 5), made("a", 4), made("a", 6), made("b", 2)},
		busy: map[string]error{"a5": errors.New("device or resource busy")},
	}
	nd := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: engine, Report: func(e node.Event) { notes = append(notes, e.Text) }}
	current := record(t, nd, 6)
	got, err := Collect(t.Context(), nd, current)
	if err != nil || !slices.Equal(got.Containers, []string{"a4"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "kept container a5: device or resource busy") {
		t.Errorf("said %q", notes)
	}
	engine.busy["a5"] = fmt.Errorf("remove: %w", containers.ErrUnreachable)
	if _, err := Collect(t.Context(), nd, current); !errors.Is(err, containers.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

// What was pulled ahead outlives the collection of an old generation that had
// the same image, until an upgrade uses it or another pull replaces it.
func TestCollectAhead(t *testing.T) {
	engine := &shelf{}
	nd := &node.Node{Root: t.TempDir(), Engine: engine}
	if err := os.MkdirAll(filepath.Dir(nd.NodeFilePath()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(nd.NodeFilePath(), []byte("keep_generations: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	current := record(t, nd, 6)
	if err := nd.Store().SetPrefetched(generation.Prefetched{Images: []string{"img1", "new"}, Left: []string{"img3", "img6", "mistake"}}); err != nil {
		t.Fatal(err)
	}
	var gone Garbage
	if err := collectGenerations(t.Context(), nd, current, nil, &gone); err != nil {
		t.Fatal(err)
	}
	if want := []string{"img3", "img4", "imgB1", "mistake"}; !slices.Equal(gone.Images, want) {
		t.Errorf("gone are %q, want %q", gone.Images, want)
	}
	prefetched, err := nd.Store().Prefetched()
	if err != nil || !slices.Equal(prefetched.Images, []string{"img1", "new"}) || len(prefetched.Left) > 0 {
		t.Errorf("prefetched are %+v, %v", prefetched, err)
	}
	if err := fetch.UsePrefetched(nd, generation.Generation{Services: []generation.Service{{Image: generation.Image{ID: "new"}}}}); err != nil {
		t.Fatal(err)
	}
	if prefetched, err = nd.Store().Prefetched(); err != nil || !slices.Equal(prefetched.Images, []string{"img1"}) {
		t.Errorf("used: %+v, %v", prefetched, err)
	}
}

// An engine that is restarted between two calls must not start the old container again
// beside the new one: after a power loss, it may not know that it must not.
func TestDemoteUpdatesBeforeItStops(t *testing.T) {
	c := made("a", 1)
	c.State = containers.StateRunning
	e := &shelf{all: []containers.Container{c}}
	tx := newTransaction(&node.Node{Root: t.TempDir(), Host: idle(t), Engine: e}, nil, generation.Generation{Number: 1})
	if err := tx.demote(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(e.did, ", "); got != "settle a1 a1 no, stop a1, settle a1 a-g1 no" {
		t.Errorf("the engine was told: %s", got)
	}
}

// idle is a machine on which nothing runs: the containers of made-up engines have ids of
// which there may be some on the machine that runs the tests.
func idle(t testing.TB) host.Host {
	t.Helper()
	return host.Host{Proc: t.TempDir(), Sys: t.TempDir(), Run: t.TempDir(), Now: time.Now, SocketPeers: unconnected}
}
