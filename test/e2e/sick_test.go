package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// TestSickNode brings the container of a service into each state that
// docs/reliability.md lists. From each, an upgrade, a rollback, an upgrade that is rolled
// back and the recovery from a kill must end as the page says, the service never runs
// twice, and a last upgrade makes the node healthy.
func TestSickNode(t *testing.T) {
	rows := sickRows(t)
	takeThrough := func(t *testing.T, engine nodetest.Engine, registry *machine.Registry, address string) {
		p := &protocol{engine: engine, registry: registry}
		pushTiny(t, p.registry, "test/tiny", "v1")
		var waiting sync.WaitGroup
		waiting.Go(func() { // most of the time
			t.Run(hung, func(t *testing.T) { newHungNode(t, p).survivesHanging(rows) })
		})
		defer waiting.Wait()
		s := &sickNode{protocol: p, testNode: newNodeOn(t, engine), name: "alpha", image: "tiny", data: t.TempDir(), volume: filepath.Join(t.TempDir(), "volume"), address: address}
		check(t, os.Mkdir(s.volume, 0o700))
		s.configure("serve")
		s.Must(0, "bootstrap")
		for _, row := range rows {
			switch {
			case row.state == hung:
			case row.state == imageGone && engine.Name == "podman":
				t.Run(row.state, func(t *testing.T) { t.Skip("podman removes an image only with the containers that use it") })
			default:
				t.Run(row.state, func(t *testing.T) { s.in(t).survives(row) })
			}
		}
		t.Run("replaced container is started", func(t *testing.T) { s.in(t).waitsAtItsGate() })
		if engine.Docker != nil { // containerd has no image without a name
			t.Run("image is untagged", func(t *testing.T) { s.in(t).untagged() })
		}
		if engine.Name == "containerd" { // whose log writer is kollet
			t.Run("kollet is moved", func(t *testing.T) { s.in(t).moved() })
		}
		t.Run("service is renamed", func(t *testing.T) { s.in(t).renamed() })
		t.Run("record is damaged", func(t *testing.T) { s.in(t).damaged() })
	}
	t.Run("docker", func(t *testing.T) {
		t.Parallel()
		takeThrough(t, nodetest.OnDocker(machine.Dockerd(t)), machine.NewRegistry(t), "127.0.0.1:7001")
	})
	t.Run("containerd", func(t *testing.T) {
		t.Parallel()
		takeThrough(t, nodetest.OnContainerd(machine.NewContainerd(t)), machine.NewRegistry(t), "127.0.0.1:7002")
	})
	if nodetest.WithPodman {
		t.Run("podman", func(t *testing.T) {
			t.Parallel()
			registry := machine.NewRegistry(t)
			takeThrough(t, nodetest.OnPodman(machine.NewPodman(t, registry)), registry, "127.0.0.1:7005")
		})
	}
}

// sickRow is what docs/reliability.md says about a state.
type sickRow struct {
	state  string
	status []string // any of these

	// exit status; -1: any
	verify, plan, guests, gc, upgrade, upgradeThatFails, rollback, recover int
}

// sickRows reads the table of states.
func sickRows(t *testing.T) []sickRow {
	t.Helper()
	var rows []sickRow
	for _, cells := range documentedRows(t, "old container") {
		row := sickRow{state: cells[0], status: strings.Split(cells[1], " or ")}
		for i, into := range []*int{&row.verify, &row.plan, &row.guests, &row.gc, &row.upgrade, &row.upgradeThatFails, &row.rollback, &row.recover} {
			*into = -1
			if cells[2+i] != "any" {
				status, err := strconv.Atoi(cells[2+i])
				check(t, err)
				*into = status
			}
		}
		rows = append(rows, row)
	}
	if len(rows) != len(ailments) {
		t.Fatalf("docs/reliability.md lists %d states, and the test knows %d", len(rows), len(ailments))
	}
	return rows
}

// sickNode is a node with one service, whose container is sick. Every generation reads
// a file of its own, so that one can be made to fail alone.
type sickNode struct {
	*protocol
	*testNode
	name    string // of the service
	image   string // its repository
	address string // of the service
	data    string // directory of the files
	volume  string // a directory that the service only has
	last    int    // the file of the node file that was written last
}

func (s *sickNode) in(t *testing.T) *sickNode {
	inner, n := *s, *s.testNode.Node
	n.T = t
	inner.testNode = &testNode{&n}
	t.Cleanup(func() { s.last = inner.last })
	return &inner
}

// configure writes a node file that differs from the one before. The mode is what the
// tiny service does.
func (s *sickNode) configure(mode string) {
	s.T.Helper()
	s.last++
	check(s.T, os.WriteFile(s.file(), []byte("here\n"), 0o600))
	s.Write("/etc/kollet/node.yaml", fmt.Sprintf(`profile: none
engine: %s
images: {registry: %s/test, tag: v1}
services:
  %s:
    image: %s
    command: [%s, %q, %q]
    stop_grace_period: 1s
    volumes: [{source: %s, target: %[8]s}, {source: %[9]s, target: /volume}]
    healthcheck: [{tcp: %[6]q, start_period: 20s, stable: 50ms, interval: 20ms}]
`, s.engine.Name, s.registry.Addr, s.name, s.image, mode, s.address, s.file(), s.data, s.volume))
}

func (s *sickNode) file() string { return filepath.Join(s.data, strconv.Itoa(s.last)) }

func (s *sickNode) container() containers.Container {
	s.T.Helper()
	c, err := s.Engine.Inspect(context.Background(), s.Service(s.name).Container)
	check(s.T, err)
	return c
}

// survives takes the service through a state four times. If an upgrade cannot do it
// before the cause is gone, the next one can.
func (s *sickNode) survives(row sickRow) {
	s.T.Helper()
	ailment := ailments[row.state]
	s.sicken(row)
	s.answers(row)
	s.upgrade(row.upgrade, "serve")
	ailment.cure(s)
	if row.upgrade != 0 {
		s.upgrade(0, "serve")
	}
	s.well()

	s.upgrade(0, "serve") // the generation before has what it needs
	s.sicken(row)
	s.once(func() { s.Must(row.rollback, "rollback") })
	ailment.cure(s)
	s.upgrade(0, "serve") // also if it was rolled back to a generation with another file
	s.well()

	s.sicken(row)
	s.upgrade(row.upgradeThatFails, "fail")
	ailment.cure(s)
	if s.Kollet("verify").Code == 0 && !ailment.prevents { // the rollback has repaired it
		s.sicken(row)
	}
	s.configure("serve")
	var before containers.Container
	if ailment.prevents {
		before = s.container()
	}
	if o, killed := s.KilledAt(afterCutover, "upgrade"); !killed {
		s.T.Fatalf("not killed: %s", o.All())
	}
	if ailment.prevents {
		ailment.begin(s, before)
	}
	s.once(func() { s.Must(row.recover, "recover") })
	ailment.cure(s)
	s.upgrade(0, "serve")
	s.well()
}

// answers requires what the commands return that start no service.
func (s *sickNode) answers(row sickRow) {
	s.T.Helper()
	for command, want := range map[string]int{"plan --exit-code": row.plan, "guests": row.guests, "gc": row.gc} {
		if o := s.Kollet(strings.Fields(command)...); want >= 0 && o.Code != want {
			s.T.Fatalf("%s: exit status %d, want %d\n%s", command, o.Code, want, o.All())
		}
	}
}

// waitsAtItsGate starts a container like the one that was replaced last. It waits at its
// gate, is drift, and the next upgrade stops it and nothing else.
func (s *sickNode) waitsAtItsGate() {
	s.T.Helper()
	old := s.container()
	s.upgrade(0, "serve")
	before := s.Service("alpha")
	old.Spec.Name, old.Spec.Restart = "alpha-g"+old.Spec.Labels[node.LabelGeneration], containers.RestartNo
	id, err := s.Engine.Create(context.Background(), old.Spec)
	check(s.T, err)
	s.once(func() { check(s.T, s.Engine.Start(context.Background(), id)) })
	contains(s.T, s.Must(1, "verify").Stdout, "alpha", old.Spec.Name, "was replaced and was started again")
	contains(s.T, s.Must(3, "plan", "--exit-code").Stdout, "was replaced and was started again")
	s.once(func() { s.Must(0, "upgrade") })
	s.well()
	nodetest.Same(s.T, before, s.Service("alpha"))
}

// renamed gives the service another name, which must not run beside it, forward and
// back.
func (s *sickNode) renamed() {
	s.T.Helper()
	s.configure("fail")
	rename := func() {
		text, err := os.ReadFile(s.Path("/etc/kollet/node.yaml"))
		check(s.T, err)
		s.Write("/etc/kollet/node.yaml", strings.Replace(string(text), "  alpha:", "  gamma:", 1))
	}
	rename()
	s.once(func() { s.Must(1, "upgrade") })
	s.well()
	s.configure("serve")
	rename()
	s.once(func() { s.Must(0, "upgrade") })
	s.well()
}

// untagged removes the names of an image whose container runs. Docker keeps the image.
func (s *sickNode) untagged() {
	s.T.Helper()
	s.Must(0, "upgrade", "--pull", "always") // an image that was gone was pulled by its digest
	ref := s.registry.Addr + "/test/tiny:v1"
	was, err := s.Engine.Image(s.T.Context(), ref)
	check(s.T, err)
	forget := s.engine.Forget(ref)
	if s.engine.Name == "podman" { // it would keep the name with the digest
		forget = s.engine.Docker("untag", was.ID)
	}
	run(s.T, forget)
	if now, err := s.Engine.Image(s.T.Context(), was.ID); err != nil || now.Digest != "" {
		s.T.Fatalf("the image is %+v, %v", now, err)
	}
	s.upgrade(0, "serve")
	s.well()
	s.configure("serve")
	s.Must(0, "rollback")
	s.well()
	s.Must(0, "upgrade", "--pull", "always")
}

// moved moves kollet, without which containerd cannot restart what it started.
func (s *sickNode) moved() {
	s.T.Helper()
	usual, program := s.Program, filepath.Join(s.T.TempDir(), "kollet")
	data, err := os.ReadFile(usual)
	check(s.T, err)
	check(s.T, os.WriteFile(program, data, 0o700))
	s.Program = program
	s.upgrade(0, "serve")
	s.Program = usual
	if fine := s.Kollet("doctor").Stdout; strings.Contains(fine, "restarted") {
		s.T.Errorf("before it is moved: %s", fine)
	}
	check(s.T, os.Rename(program, program+".moved"))
	contains(s.T, s.Must(1, "doctor").Stdout, "alpha would not be restarted if it exited: ", program, "put kollet back")
	s.upgrade(0, "serve")
	if fine := s.Kollet("doctor").Stdout; strings.Contains(fine, "restarted") {
		s.T.Errorf("after an upgrade: %s", fine)
	}
	s.well()
}

// damaged damages the record of the current generation: every command that needs it asks
// for an operator, and what the error says helps.
func (s *sickNode) damaged() {
	s.T.Helper()
	s.upgrade(0, "serve")
	store := (&node.Node{Root: s.Root}).Store()
	current := s.Status().Generation
	check(s.T, os.WriteFile(filepath.Join(store.Path(current), "manifest.json"), []byte("damaged"), 0o400))
	s.configure("serve")
	kept, err := store.List()
	check(s.T, err)
	for _, command := range []string{"status", "verify", "plan", "guests", "upgrade", "rollback", "recover", "gc"} {
		contains(s.T, s.Must(4, command).Stderr, "damaged record", fmt.Sprintf("run `ln -sfn generations/%06d %s`, then `kollet upgrade`", kept[slices.Index(kept, current)-1], store.Link()))
	}
	check(s.T, store.SetCurrent(kept[slices.Index(kept, current)-1]))
	s.once(func() { s.Must(0, "upgrade") })
	s.well()
}

// afterCutover is the record that says that the cutover is done: a recovery has to undo
// it.
const afterCutover = 14

func (s *sickNode) sicken(row sickRow) {
	s.T.Helper()
	c := s.container()
	ailments[row.state].begin(s, c)
	if got := s.Service(s.name); !slices.Contains(row.status, got.State) && !slices.Contains(row.status, got.Health) {
		s.T.Fatalf("status shows %s, %s, want %v", got.State, got.Health, row.status)
	}
	if code := s.Kollet("verify").Code; row.verify >= 0 && code != row.verify {
		s.T.Fatalf("verify: exit status %d, want %d", code, row.verify)
	}
}

// upgrade upgrades to another generation.
func (s *sickNode) upgrade(code int, mode string) {
	s.T.Helper()
	s.configure(mode)
	s.once(func() { s.Must(code, "upgrade") })
}

// once requires that the service never runs twice while something is done.
func (s *sickNode) once(do func()) {
	s.T.Helper()
	var watching sync.WaitGroup
	done, twice := make(chan struct{}), ""
	watching.Go(func() {
		for {
			if found := stillThere(s.processes()); len(found) > 1 {
				twice = fmt.Sprintf("%q", found)
			}
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	do()
	close(done)
	watching.Wait()
	if twice != "" {
		s.T.Fatalf("the service ran twice: %s", twice)
	}
}

// processes finds the service's processes that have passed their gates: before, a
// container runs kollet-start.
func (s *sickNode) processes() map[string]string {
	found := map[string]string{}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		data, _ := os.ReadFile(path)
		args := strings.Split(string(data), "\x00")
		if filepath.Base(args[0]) == "tiny" && slices.Contains(args, s.address) {
			found[path] = string(data)
		}
	}
	return found
}

// stillThere returns those of the processes that were found that have not exited since:
// the first may have been replaced by the second while /proc was read.
func stillThere(found map[string]string) map[string]string {
	maps.DeleteFunc(found, func(path, cmdline string) bool {
		data, _ := os.ReadFile(path)
		return string(data) != cmdline
	})
	return found
}

// well requires one container that serves, and no drift.
func (s *sickNode) well() {
	s.T.Helper()
	var st agent.Status
	s.Ask(&st, "status")
	if !st.Healthy || st.Interrupted {
		s.T.Fatalf("status: %+v", st)
	}
	s.Must(0, "verify")
	if found := s.processes(); len(found) != 1 {
		s.T.Fatalf("the service runs %d times: %q", len(found), found)
	}
	all, err := s.Engine.List(context.Background(), map[string]string{node.LabelNode: filepath.Join(s.Root, node.StateDir)})
	check(s.T, err)
	for _, c := range all {
		if c.ID != st.Services[0].Container && c.PID != 0 {
			s.T.Fatalf("container %s is %s", c.Spec.Name, c.State)
		}
	}
}
