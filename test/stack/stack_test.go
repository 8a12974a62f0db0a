package stack

import (
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

func TestMain(m *testing.M) { machine.Main(m) }

// nodes are the machines of the stack.
var nodes = []string{"cmp-0", "cmp-1"}

// TestStack takes a stack of two compute nodes from Glance and Heat to an upgrade by
// Ansible. Each part starts from the state that the part before it left.
func TestStack(t *testing.T) {
	s := newSite(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *site)
	}{
		{"a stack whose bootstrap fails has kollet's reason", failed},
		{"Heat creates two nodes", created},
		{"a server runs on one of the nodes", booted},
		{"a node that reboots starts its server again", rebooted},
		{"a node that fails is rolled back and stops the waves", stopped},
		{"after a fix the same command upgrades it", finished},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, s.in(t)) }) {
			return
		}
	}
}

// failed creates a stack whose node asks for an image that does not exist.
func failed(t *testing.T, s *site) {
	began := time.Now()
	s.create("broken", s.userData("bad", s.nodeFile("none")), 1, "broken-%index%")
	status, reason := s.awaitStack("broken", 20*time.Minute)
	t.Logf("the stack is %s after %.0f s: %s", status, time.Since(began).Seconds(), reason)
	// Heat adds a space to each colon of a reason that comes from a group.
	plain := strings.ReplaceAll(reason, ": ", ":")
	for _, want := range []string{"resources.ready:", registryAddr + "/kolla/", ":none", "check the image's name and tag"} {
		if status != "CREATE_FAILED" || !strings.Contains(plain, want) {
			t.Fatalf("the stack is %s: %s; want CREATE_FAILED with %q", status, reason, want)
		}
	}
	s.openstack("stack", "delete", "--yes", "--wait", "broken")
}

// created creates the stack of two nodes, and requires that all of the cloud sees them.
func created(t *testing.T, s *site) {
	began := time.Now()
	s.create("compute", s.userData("good", s.nodeFile(nodetest.OldVersion)), len(nodes), "cmp-%index%")
	status, reason := s.awaitStack("compute", 30*time.Minute)
	t.Logf("the stack is %s after %.0f s: %s", status, time.Since(began).Seconds(), reason)
	if status != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s: %s", status, reason)
	}
	for i, result := range s.output("results") {
		if !strings.Contains(result, "generation 1, kollet ") {
			t.Errorf("result of %s: %s", nodes[i], result)
		}
	}
	for _, node := range nodes {
		service := s.api.AwaitCompute(node, time.Time{})
		agent := s.api.AwaitAgent(node, time.Time{})
		t.Logf("%s is up: compute service %s, %s %s", node, service.ID, agent.Type, agent.ID)
	}
	hypervisors := s.openstack("hypervisor", "list", "-f", "value", "-c", "Hypervisor Hostname", "-c", "State")
	for _, node := range nodes {
		if !strings.Contains(hypervisors, node) {
			t.Errorf("%s is no hypervisor:\n%s", node, hypervisors)
		}
	}
}

// booted creates a server with a port on a node of the stack. Emulation inside emulation
// takes its time.
func booted(t *testing.T, s *site) {
	began := time.Now()
	s.inner = s.api.CreateServer("inner", nodes[0], cloud.Tenant)
	s.awaitServer(s.inner, 10*time.Minute)
	t.Logf("the server on %s is ACTIVE after %.0f s", nodes[0], time.Since(began).Seconds())
	s.awaitTicks(s.inner, 1)
	t.Logf("its console ticks after %.0f s", time.Since(began).Seconds())
}

// rebooted reboots the node that the server runs on, as its administrator does.
func rebooted(t *testing.T, s *site) {
	s.version(nodetest.OldVersion)
	began := time.Now()
	s.ansible("ansible", nodes[0], "-m", "reboot", "-a", "reboot_timeout=1800").exits(0)
	t.Logf("%s is back after %.0f s", nodes[0], time.Since(began).Seconds())
	s.lives()
	t.Logf("the server runs again after %.0f s", time.Since(began).Seconds())
	s.runs(nodes[0], nodetest.OldVersion)
}

func stopped(t *testing.T, s *site) {
	s.version(nodetest.NewVersion)
	s.breakNode(nodes[1])
	r := s.play("upgrade", "-e", `{"kollet_waves": [1, 1]}`, "-e", "kollet_window=first").exits(2)
	r.prints("cmp-0 committed 1 2", "cmp-1 rolled back 1 1", "1 committed, 1 rolled back", "cmp-1: rolled back: the node is back on generation 1: nova-compute: ")
	s.lives()
	s.runs(nodes[0], nodetest.NewVersion)
	s.runs(nodes[1], nodetest.OldVersion)
}

func finished(t *testing.T, s *site) {
	s.repairNode(nodes[1])
	s.play("upgrade", "-e", `{"kollet_waves": [1, 1]}`, "-e", "kollet_window=first").exits(0).
		prints("cmp-0 nothing to do 2 2", "cmp-1 committed 1 ")
	s.lives()
	for _, node := range nodes {
		s.runs(node, nodetest.NewVersion)
	}
}

// lives requires that the server runs on, and that Nova and Neutron see all nodes.
func (s *site) lives() {
	s.t.Helper()
	now := time.Now()
	for _, node := range nodes {
		s.api.AwaitCompute(node, now)
		s.api.AwaitAgent(node, now)
	}
	s.awaitServer(s.inner, 10*time.Minute)
	s.awaitTicks(s.inner, 2)
}
