package doctor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// oneContainer is an engine that has a container.
type oneContainer struct {
	containers.Engine
	only containers.Container
}

func (e oneContainer) Inspect(_ context.Context, id string) (containers.Container, error) {
	if id == e.only.Spec.Name {
		return e.only, nil
	}
	return containers.Container{}, fmt.Errorf("container %s: %w", id, containers.ErrNotFound)
}

func TestKolla(t *testing.T) {
	services := []generation.Service{{Name: "nova-libvirt"}, {Name: "openvswitch-db-server"}}
	kolla := map[string]string{"KOLLA_SERVICE_NAME": "nova-libvirt"}
	for _, c := range []struct {
		name, container string
		env, labels     map[string]string
		state           containers.State
		want            bool
	}{
		{"libvirt of kolla-ansible", "nova_libvirt", kolla, nil, containers.StateRunning, true},
		{"a service that kollet calls otherwise", "openvswitch_db", kolla, nil, containers.StateRunning, true},
		{"one that is about to be started again", "nova_libvirt", kolla, nil, containers.StateRestarting, true},
		{"one that is stopped", "nova_libvirt", kolla, nil, containers.StateExited, false},
		{"one that the node file has not", "nova_compute", kolla, nil, containers.StateRunning, false},
		{"one of someone else", "nova_libvirt", nil, nil, containers.StateRunning, false},
		{"kollet's own", "nova_libvirt", kolla, map[string]string{node.LabelNode: "/var/lib/kollet"}, containers.StateRunning, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := oneContainer{only: containers.Container{State: c.state, Spec: containers.Spec{Name: c.container, Env: c.env, Labels: c.labels}}}
			got := checkKolla(t.Context(), &node.Node{Engine: e}, services)
			if (len(got) == 1 && got[0].Level == Bad && strings.Contains(got[0].Text, "kolla-ansible runs "+c.container)) != c.want {
				t.Errorf("%+v", got)
			}
		})
	}
}
