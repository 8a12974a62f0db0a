package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
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
			got := checkKolla(t.Context(), &node.Node{Root: t.TempDir(), Engine: e}, services)
			if (len(got) == 1 && got[0].Level == Bad && strings.Contains(got[0].Text, "kolla-ansible runs "+c.container)) != c.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A node that kollet runs cannot be taken over. What stops a libvirt must not kill guests.
func TestKollaBeside(t *testing.T) {
	libvirt := generation.Service{Name: "nova-libvirt", Origin: 2, Guests: &nodefile.Guests{}}
	compute := generation.Service{Name: "nova-compute", Origin: 2}
	const migrated = "`docker stop nova_libvirt`, after guests that were started in it have been migrated away"
	for _, c := range []struct {
		name string
		has  []generation.Service // the current generation, if it is not of kolla-ansible
		zero bool                 // it was taken over
		runs string
		want string
	}{
		{"kolla-ansible's node", nil, false, "nova_compute", "`kollet adopt` takes them over"},
		{"it was created again", []generation.Service{compute, libvirt}, true, "nova_compute", "`docker stop nova_compute`"},
		{"libvirt was created again", []generation.Service{compute, libvirt}, true, "nova_libvirt", migrated},
		{"the node was never taken over", []generation.Service{compute}, false, "nova_libvirt", migrated},
		{"libvirt was left to kolla-ansible", []generation.Service{compute}, true, "nova_libvirt", "do not stop nova_libvirt, whose guests would die: `kollet rollback 0`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := oneContainer{only: containers.Container{State: containers.StateRunning, Spec: containers.Spec{Name: c.runs, Env: map[string]string{"KOLLA_SERVICE_NAME": "x"}}}}
			n := &node.Node{Root: t.TempDir(), Engine: e}
			if c.has != nil {
				g := generation.Generation{Number: 2, Services: c.has}
				if c.zero {
					a := generation.Adopted{Containers: map[string]generation.Container{"nova-compute": {ID: "a", Name: "nova_compute"}}}
					if err := n.Store().SetAdopted(a); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(n.Store().Write(g, nil, func(string) error { return nil }), n.Store().SetCurrent(2)); err != nil {
					t.Fatal(err)
				}
			}
			got := checkKolla(t.Context(), n, []generation.Service{compute, libvirt})
			if len(got) != 1 || !strings.HasPrefix(got[0].Remedy, c.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Nobody has to search for why two of a service run.
func TestStartedAgain(t *testing.T) {
	n := &node.Node{Root: t.TempDir()}
	g := generation.Generation{Number: 2, Services: []generation.Service{{Name: "nova-compute", Origin: 2}}}
	a := generation.Adopted{Containers: map[string]generation.Container{"nova-compute": {ID: "nova_compute", Name: "nova_compute"}}}
	if err := errors.Join(n.Store().SetAdopted(a), n.Store().Write(g, nil, func(string) error { return nil }), n.Store().SetCurrent(2)); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[containers.State]int{containers.StateExited: 0, containers.StateRunning: 1} {
		n.Engine = oneContainer{only: containers.Container{State: state, Spec: containers.Spec{Name: "nova_compute"}}}
		got := checkStartedAgain(t.Context(), n)
		if len(got) != want || want == 1 && got[0].Text != "kolla-ansible's container nova_compute was started again, beside nova-compute" {
			t.Errorf("%s: %+v", state, got)
		}
	}
}

// A node without a node file may be one of kolla-ansible.
func TestUnadopted(t *testing.T) {
	of := containers.Container{State: containers.StateRunning, Spec: containers.Spec{Name: "nova_compute", Env: map[string]string{node.ServiceVariable: "nova-compute"}}}
	stopped, other := of, containers.Container{State: containers.StateRunning}
	stopped.State = containers.StateExited
	got := checkUnadopted(t.Context(), &node.Node{Engine: engine{all: []containers.Container{other, of}}})
	if len(got) != 1 || got[0].Level != Warning || !strings.Contains(got[0].Remedy, "`kollet adopt --plan`") {
		t.Errorf("%+v", got)
	}
	if got := checkUnadopted(t.Context(), &node.Node{Engine: engine{all: []containers.Container{other, stopped}}}); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
