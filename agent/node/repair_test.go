package node

import (
	"os"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/containers"
)

// An upgrade repairs what kollet runs, and is refused for what kolla-ansible runs.
func TestRepair(t *testing.T) {
	n, _, _ := unitNode(t)
	n.Name = "compute-1"
	const exited, paused = containers.StateExited, containers.StatePaused
	const adopt = "; `kollet adopt` then takes the node over"
	deploy := "`kolla-ansible deploy --limit compute-1` creates it again"
	for _, c := range []struct {
		service string
		origin  int
		state   containers.State
		want    string
	}{
		{"nova-compute", 3, exited, "upgrade it"},
		{"unknown", 0, exited, "upgrade it"},
		{"nova-compute", 0, exited, "kolla-ansible runs it: `systemctl start kolla-nova_compute-container.service` starts it, or " + deploy + adopt},
		{"nova-libvirt", 0, exited, "kolla-ansible runs it: `docker start nova_libvirt` starts it, or " + deploy + adopt},
		{"nova-compute", 0, paused, "kolla-ansible runs it: `docker unpause nova_compute` resumes it" + adopt},
		{"nova-compute", 0, "", "kolla-ansible runs it: " + deploy + adopt},
	} {
		if got := n.Repair(generation.Service{Name: c.service, Origin: c.origin}, c.state, "upgrade it"); got != c.want {
			t.Errorf("%s of generation %d, %s: %s", c.service, c.origin, c.state, got)
		}
	}
	if err := os.RemoveAll(n.State()); err != nil {
		t.Fatal(err)
	}
	if got := n.Repair(generation.Service{Name: "nova-compute"}, exited, "upgrade it"); got != "upgrade it" {
		t.Errorf("of a node that was not taken over: %s", got)
	}
}
