package node

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/containers"
)

// Nobody waits for a record that never comes.
func TestCurrentFIFO(t *testing.T) {
	n := &Node{Root: t.TempDir()}
	manifest := filepath.Join(n.Store().Path(3), "manifest.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(manifest), 0o700), unix.Mkfifo(manifest, 0o600), n.Store().SetCurrent(3)); err != nil {
		t.Fatal(err)
	}
	_, err := n.Current()
	if _, operator := errors.AsType[NeedsOperator](err); !operator || !strings.HasPrefix(err.Error(), "read generation 3: "+manifest+" is a FIFO, not a regular file; restore it") {
		t.Errorf("got %v", err)
	}
}

// Without the record of the current generation nobody can tell what the node should run.
func TestCurrentUnreadable(t *testing.T) {
	for name, c := range map[string]struct{ record, want string }{
		"torn":            {"{", "damaged record"},
		"empty":           {"", "damaged record"},
		"another number":  {`{"format": 1, "number": 4}`, "damaged record"},
		"another version": {`{"format": 9, "kollet": "9.0"}`, "use that version"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{Root: t.TempDir()}
			manifest := filepath.Join(n.Store().Path(3), "manifest.json")
			err := errors.Join(os.MkdirAll(filepath.Dir(manifest), 0o700), os.WriteFile(manifest, []byte(c.record), 0o600), n.Store().SetCurrent(3))
			if err != nil {
				t.Fatal(err)
			}
			_, err = n.Current()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			_, operator := errors.AsType[NeedsOperator](err)
			if operator != (c.want == "damaged record") || operator && !strings.Contains(err.Error(), "; restore it from a backup, or run `ln -sfn generations/000000 "+n.Store().Link()+"`, then `kollet upgrade`") {
				t.Errorf("got %v", err)
			}
			if err := os.WriteFile(n.Path("/node.yaml"), []byte("engine: containerd\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if name, engine := EngineName(n.Root, "/node.yaml"); engine == nil || engine.Error() != err.Error() || name != "containerd" {
				t.Errorf("the engine's name: %q, %v", name, engine)
			}
		})
	}
	if g, err := (&Node{Root: t.TempDir()}).Current(); err != nil || g.Number != (generation.Generation{}).Number {
		t.Errorf("without a generation: %+v, %v", g, err)
	}
}

// What was interrupted is recovered on the engine on which it began, whatever the node file
// says by now.
func TestEngineOfInterrupted(t *testing.T) {
	const damaged, other = "engine: [", "engine: docker"
	begin := func(engine string) journal.Record {
		return journal.Record{Format: journal.Format, Event: journal.Begin, To: 1, Engine: engine}
	}
	end := journal.Record{Event: journal.End, Outcome: journal.Discarded}
	for name, c := range map[string]struct {
		nodeFile string
		records  []journal.Record
		want     string
	}{
		"another node file":   {other, []journal.Record{begin("containerd")}, "containerd"},
		"damaged node file":   {damaged, []journal.Record{begin("containerd")}, "containerd"},
		"ended":               {other, []journal.Record{begin("containerd"), end}, "docker"},
		"by an older version": {"engine: containerd", []journal.Record{begin("")}, "containerd"},
		"without a record":    {"engine: containerd", nil, "containerd"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{Root: t.TempDir()}
			var lines []byte
			for _, r := range c.records {
				line, err := json.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				lines = append(append(lines, line...), '\n')
			}
			err := errors.Join(os.MkdirAll(n.Journals(), 0o700), os.WriteFile(filepath.Join(n.Journals(), "000001.jsonl"), lines, 0o600),
				os.WriteFile(n.Path("/node.yaml"), []byte(c.nodeFile), 0o600))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := EngineName(n.Root, "/node.yaml"); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// lister is an engine that only lists.
type lister struct {
	containers.Engine
	all []containers.Container
}

func (l lister) List(context.Context, map[string]string) ([]containers.Container, error) {
	return l.all, nil
}

// Several containers may have the labels of one: Docker gives a container those of its image.
func TestContainerOfSeveral(t *testing.T) {
	n := &Node{Root: t.TempDir()}
	gate := []containers.Mount{{Type: containers.Bind, Source: n.Store().Gate(3, "alpha"), Target: "/gate"}}
	one, two := containers.Container{ID: "one", Spec: containers.Spec{Name: "alpha", Mounts: gate}}, containers.Container{ID: "two", Spec: containers.Spec{Name: "alpha-g3", Mounts: gate}}
	forged := containers.Container{ID: "forged", Spec: containers.Spec{Name: "forged"}}
	for name, c := range map[string]struct {
		all           []containers.Container
		want, problem string
	}{
		"none":             {nil, "", "not found"},
		"one":              {[]containers.Container{one}, "one", ""},
		"one that differs": {[]containers.Container{forged}, "forged", ""},
		"a forged one":     {[]containers.Container{forged, one}, "one", ""},
		"two":              {[]containers.Container{one, forged, two}, "", "generation 3: alpha (one), alpha-g3 (two); remove all except one"},
		"two forged ones":  {[]containers.Container{forged, forged}, "", "remove all except one"},
	} {
		n.Engine = lister{all: c.all}
		got, err := n.Container(t.Context(), "alpha", 3)
		if got.ID != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: got %q, %v", name, got.ID, err)
		}
	}
}
