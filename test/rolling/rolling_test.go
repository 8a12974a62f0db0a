package rolling

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// workerCount is how many operations are under way at a time.
const workerCount = 3

// quiescing is how a node asks Nova and waits for operations.
const quiescing = "openstack: {username: nova, password: nova_password}\nquiesce: {wait: 5m}\n"

// migratesKernels has Nova accept the kernel of a server in a migration. Its check of images
// takes the format of such an image, aki, for one that qemu-img should report
// (nova/virt/images.py, fetch_to_raw, in 26.2.2); the check is not made when a server is
// created.
const migratesKernels = "[workarounds]\ndisable_deep_image_inspection = true\n"

// TestRollingUpgrade upgrades two nodes of a cloud, one after the other, while servers are
// created, moved, copied and deleted on them.
func TestRollingUpgrade(t *testing.T) {
	s := newSite(t)
	r := &rolling{t: t, nodes: []*compute{newCompute(s, 1), newCompute(s, 2)}}
	r.together(func(n *compute) error { return n.pull() }, func() { r.cloud = newControl(s) })
	r.bootstrap()
	for _, part := range []struct {
		name string
		test func(*rolling)
	}{
		{"no operation fails", quiesced},
		{"without quiescing failures are noticed", unquiesced},
	} {
		t.Run(part.name, func(t *testing.T) { r.t, s.T, r.cloud.t = t, t, t; part.test(r) })
	}
	s.T = t
}

// rolling is a cloud with two nodes, and a server on each that stays there.
type rolling struct {
	t         *testing.T
	cloud     *control
	nodes     []*compute
	residents []resident
}

// together runs something on all nodes at once, and something else meanwhile.
func (r *rolling) together(on func(*compute) error, meanwhile func()) {
	r.t.Helper()
	var group sync.WaitGroup
	errs := make([]error, len(r.nodes))
	for i, n := range r.nodes {
		n.Await()
		group.Go(func() { errs[i] = on(n) })
	}
	meanwhile()
	group.Wait()
	check(r.t, errors.Join(errs...))
}

func (r *rolling) bootstrap() {
	r.t.Helper()
	certify(r.t, r.nodes...)
	for _, n := range r.nodes {
		r.cloud.join(n)
		n.vars = append(n.vars, "live_migration: tls")
		n.volumes = []string{n.Path("pki") + ":/etc/pki:ro"}
		n.more = quiescing
		n.write("/etc/kollet/config/nova.conf", migratesKernels)
		n.configure()
	}
	begun := time.Now()
	r.together(func(n *compute) error { _, err := n.Try("kollet bootstrap"); return err }, func() {})
	for _, n := range r.nodes {
		r.cloud.AwaitCompute(n.Name, begun)
		r.residents = append(r.residents, r.cloud.newResident(n))
	}
}

// upgrade upgrades the nodes one after the other with a command, while workers use the
// cloud. done judges how the command ended.
func (r *rolling) upgrade(version, command string, done func(error)) *workers {
	r.t.Helper()
	w := start(r.t, r.cloud, workerCount)
	w.await(1, time.Now())
	for _, n := range r.nodes {
		n.version = version
		n.configure()
		out, err := n.Try(command + " 2>&1")
		r.t.Logf("%s\n%s", n.Name, out)
		done(err)
		r.cloud.awaitHosts(len(r.nodes))
		w.await(1, time.Now())
	}
	w.end()
	r.t.Logf("\n%s", w.report())
	for _, one := range r.residents {
		one.lives(r.t)
	}
	return w
}

func quiesced(r *rolling) {
	committed := func(err error) { check(r.t, err) }
	if n := r.upgrade(nodetest.NewVersion, "kollet upgrade", committed).count(failed); len(n) > 0 {
		r.t.Errorf("operations failed: %v", n)
	}
}

// unquiesced records how many operations fail if kollet neither asks Nova nor waits. That
// depends on chance, so the test only requires that workers notice a failure at all: a
// server whose guest was killed cannot be moved.
func unquiesced(r *rolling) {
	for _, n := range r.nodes {
		n.more = ""
	}
	// kollet misses a guest whose migration ends during the cutover, and rolls back.
	either := func(err error) {
		if err != nil && !strings.Contains(err.Error(), "the node is back on generation ") {
			r.t.Fatal(err)
		}
	}
	w := r.upgrade(nodetest.OldVersion, "kollet upgrade --force", either)
	victim := r.residents[0]
	victim.node.Run(fmt.Sprint("kill -9 ", victim.guest.PID))
	before := len(w.done)
	if w.do("migrate", "a killed guest", func() error { return r.cloud.migrate(r.t.Context(), victim.server.ID) }) {
		r.t.Error("a server whose guest was killed was migrated")
	}
	if last := w.done[before:]; !slices.ContainsFunc(last, failed) {
		r.t.Errorf("the failure was not noticed: %+v", last)
	}
}

// resident is a server that stays on its node.
type resident struct {
	node   *compute
	server server
	guest  guest.Guest
}

// newResident makes a server on a node, and waits until its guest counts.
func (c *control) newResident(n *compute) resident {
	c.t.Helper()
	s, err := c.create(c.t.Context(), "resident-of-"+n.Name, n.Name)
	check(c.t, err)
	r := resident{node: n, server: s}
	machine.AwaitTick(c.t, r.console(), 3)
	for _, g := range n.guests() {
		if g.UUID == s.ID {
			r.guest = g.Guest
		}
	}
	return r
}

func (r resident) console() string {
	return r.node.Path("docker/volumes/nova_compute/_data/instances/" + r.server.ID + "/" + machine.Console)
}

// lives requires that the guest is the same process and has counted all the time.
func (r resident) lives(t *testing.T) {
	t.Helper()
	ticks, err := machine.Ticks(r.console())
	check(t, err)
	machine.AwaitTick(t, r.console(), len(ticks)+2)
	check(t, machine.Unbroken(ticks))
	if !slices.ContainsFunc(r.node.guests(), func(g agent.Guest) bool { return g.Same(r.guest) }) {
		t.Errorf("the guest of %s is not the process that it was: %+v, now %+v", r.node.Name, r.guest, r.node.guests())
	}
}
