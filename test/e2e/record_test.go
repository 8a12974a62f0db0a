package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
	"github.com/kollet/kollet/test/recordings"
)

// TestRecord records a node in every state in which kollet can be killed, into
// the directory that KOLLET_RECORD names: see docs/development.md.
func TestRecord(t *testing.T) {
	dir := os.Getenv("KOLLET_RECORD")
	if dir == "" {
		t.Skip("KOLLET_RECORD names no directory; make recordings does")
	}
	r := &recorder{t: t, protocol: &protocol{engine: nodetest.OnDocker(machine.Dockerd(t)), registry: machine.NewRegistry(t)}}
	for _, tag := range []string{"v1", "v2"} {
		pushTiny(t, r.registry, "test/tiny", tag)
	}
	r.record(filepath.Join(dir, "upgrade.txtar"), "An upgrade that succeeds, killed after each record.", func() []recordings.Point {
		return r.killedAtEach("upgrade", serves, "")
	})
	r.record(filepath.Join(dir, "discard.txtar"), "An upgrade that fails while it is staged, killed after the failure and after each record that follows.", func() []recordings.Point {
		return r.killedAtEach("upgrade", "entrypoint: [/no/such/program]", `"event":"failed"`)
	})
	r.record(filepath.Join(dir, "rollback.txtar"), "An upgrade that fails after the cutover, killed after the failure and after each record that follows.", func() []recordings.Point {
		return r.killedAtEach("upgrade", "command: [sulk]", `"event":"failed"`)
	})
	r.record(filepath.Join(dir, "recovery.txtar"), "The recovery of an upgrade that was killed in the last cutover, killed after each record.", func() []recordings.Point {
		return r.killedAtEach("recover", serves, `"event":"undo"`)
	})
}

// serves is a command with which beta works.
const serves = `command: [serve, "127.0.0.1:7002"]`

// lastCutOver is the number of the record that begins the cutover of beta and gamma.
const lastCutOver = 20

// recorder records one node after another.
type recorder struct {
	t *testing.T
	*protocol
	n *testNode
}

func (r *recorder) record(path, comment string, scenario func() []recordings.Point) {
	r.n = nil
	points := scenario()
	if len(points) < 4 {
		r.t.Fatalf("%s: only %d points", path, len(points))
	}
	check(r.t, recordings.Write(path, comment, points))
	r.t.Logf("%s: %d points", path, len(points))
	r.n.Clear()
}

// killedAtEach repeats a command and kills it one record later each time, until it ends
// before it is killed. The command is an upgrade to a command of beta, or the recovery
// of an upgrade that was killed in its last cutover. It returns the states whose
// journals contain a text.
func (r *recorder) killedAtEach(command, beta, text string) []recordings.Point {
	var points []recordings.Point
	first := 1
	if command == "recover" {
		first = lastCutOver + 1
	}
	for at := first; ; at++ {
		r.base()
		r.configure("v2", beta)
		if command == "recover" {
			if o, killed := r.n.KilledAt(lastCutOver, "upgrade"); !killed {
				r.t.Fatalf("the upgrade was not killed\n%s", o.All())
			}
		}
		if _, killed := r.n.KilledAt(at, command); !killed {
			return points
		}
		if p := r.point(); strings.Contains(p.State["journal/000002.jsonl"], text) {
			points = append(points, p)
		}
	}
}

// base brings the node to its first generation. All recordings begin there, so that
// they share most of their files.
func (r *recorder) base() {
	if r.n != nil && r.n.Status().Generation == 1 {
		check(r.t, os.RemoveAll(r.n.Path(node.StateDir+"/journal/000002.jsonl")))
		return
	}
	if r.n != nil {
		r.n.Clear()
	}
	r.n = newNodeOn(r.t, r.engine)
	r.configure("v1", serves)
	r.n.Must(0, "bootstrap")
}

// configure writes a node file with a service that starts guests, and two that
// are cut over as one.
func (r *recorder) configure(tag, beta string) {
	r.n.Write(node.DefaultNodeFile, fmt.Sprintf(`profile: none
engine: docker
images: {registry: %s/test, tag: %s}
services:
  alpha:
    image: tiny
    pid: host
    command: [serve, "127.0.0.1:7001"]
    stop_grace_period: 5s
    config: [{content: "alpha\n", dest: /etc/alpha.conf, owner: root, perm: "0600"}]
    healthcheck: [{exec: [/bin/tiny, ask, "127.0.0.1:7001"], start_period: 5s, stable: 50ms, interval: 50ms}]
    guests: {list: [/bin/true]}
  beta:
    image: tiny
    %s
    depends_on: [alpha]
    group: pair
    healthcheck: [{exec: [/bin/tiny, ask, "127.0.0.1:7002"], start_period: 1s, stable: 50ms, interval: 50ms}]
  gamma:
    image: tiny
    group: pair
    command: [serve, "127.0.0.1:7003"]
    healthcheck: [{exec: [/bin/tiny, ask, "127.0.0.1:7003"], start_period: 5s, stable: 50ms, interval: 50ms}]
`, r.registry.Addr, tag, beta))
}

// point reads the state of the node before and after recovery.
func (r *recorder) point() recordings.Point {
	p := recordings.Point{Containers: r.containers()}
	var err error
	p.State, err = recordings.ReadState(r.n.Path(node.StateDir))
	check(r.t, err)
	var recovery upgrade.Recovery
	r.n.Ask(&recovery, "recover")
	p.End = recordings.End{Found: recovery.Found, Outcome: string(recovery.Outcome), Current: recovery.Current, Containers: r.containers()}
	return p
}

func (r *recorder) containers() []recordings.Container {
	all, err := r.n.Engine.List(r.t.Context(), map[string]string{node.LabelNode: r.n.Path(node.StateDir)})
	check(r.t, err)
	return recordings.Containers(all)
}
