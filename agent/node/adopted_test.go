package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/containers"
)

// fakeEngine has containers, and records their updates and starts.
type fakeEngine struct {
	containers.Engine
	all    []containers.Container
	done   []string
	broken error // of every start
}

func (e *fakeEngine) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	return slices.DeleteFunc(slices.Clone(e.all), func(c containers.Container) bool { return !containers.HasLabels(c.Spec.Labels, labels) }), nil
}

func (e *fakeEngine) Inspect(_ context.Context, id string) (containers.Container, error) {
	for _, c := range e.all {
		if c.ID == id || c.Spec.Name == id {
			return c, nil
		}
	}
	return containers.Container{}, fmt.Errorf("container %s: %w", id, containers.ErrNotFound)
}

func (e *fakeEngine) Update(_ context.Context, id, name string, restart containers.Restart) error {
	e.done = append(e.done, fmt.Sprintf("update %s %s %s", id, name, restart))
	return nil
}

func (e *fakeEngine) Start(_ context.Context, id string) error {
	e.done = append(e.done, "start "+id)
	return e.broken
}

// adoptedNode is a node that was taken over: libvirt's container was removed since, iscsid has the
// name of its service.
func adoptedNode(t *testing.T) (*Node, *fakeEngine) {
	t.Helper()
	e := &fakeEngine{}
	n := &Node{Root: t.TempDir(), Engine: e}
	own := map[string]string{LabelNode: n.State(), LabelService: "nova-compute", LabelGeneration: "1"}
	for name, labels := range map[string]map[string]string{"nova_compute": {"site": "one"}, "iscsid": nil, "nova-compute": own, "other": nil} {
		e.all = append(e.all, containers.Container{ID: "id-" + name, Spec: containers.Spec{Name: name, Labels: labels}})
	}
	err := n.Store().SetAdopted(generation.Adopted{
		Generation: generation.Generation{Engine: "docker", Services: []generation.Service{{Name: "nova-compute"}, {Name: "iscsid"}, {Name: "nova-libvirt"}}},
		Containers: map[string]generation.Container{
			"nova-compute": {ID: "id-nova_compute", Name: "nova_compute", Restart: containers.RestartUnlessStopped},
			"iscsid":       {ID: "id-iscsid", Name: "iscsid", Restart: containers.RestartNo},
			"nova-libvirt": {ID: "id-nova_libvirt", Name: "nova_libvirt"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Engine = n.Recognising()
	return n, e
}

// The containers of generation 0 are those of the node, and no others are.
func TestRecognising(t *testing.T) {
	n, _ := adoptedNode(t)
	names := func(labels map[string]string) string {
		t.Helper()
		all, err := n.Engine.List(t.Context(), labels)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range all {
			names = append(names, c.Spec.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for _, c := range []struct {
		labels map[string]string
		want   string
	}{
		{nil, "iscsid nova-compute nova_compute other"},
		{n.Labels("", 0), "iscsid nova-compute nova_compute"},
		{n.Labels("nova-compute", 0), "nova_compute"},
		{n.Labels("nova-compute", 1), "nova-compute"},
		{n.Labels("nova-libvirt", 0), ""},
		{map[string]string{LabelNode: "/another"}, ""},
	} {
		if got := names(c.labels); got != c.want {
			t.Errorf("%v: %q, want %q", c.labels, got, c.want)
		}
	}
	c, err := n.Container(t.Context(), "nova-compute", 0)
	if err != nil || c.ID != "id-nova_compute" || c.Spec.Labels["site"] != "one" || !IsAdopted(c) {
		t.Errorf("%+v, %v", c, err)
	}
	if current, err := n.Current(); err != nil || current.Number != 0 || len(current.Services) != 3 {
		t.Errorf("%+v, %v", current, err)
	}
}

// What is adopted is kept stopped, under its name unless the service needs that, and returned with
// its name and policy. Its unit is kept from starting it meanwhile.
func TestKeepAndReturn(t *testing.T) {
	n, e := adoptedNode(t)
	unit := n.Path("/etc/systemd/system/kolla-nova_compute-container.service")
	if err := os.MkdirAll(filepath.Dir(unit), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unit, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dropIn := unit + ".d/kollet.conf"
	for range 2 { // each may run again
		for _, service := range []string{"nova-compute", "iscsid"} {
			c, err := n.Container(t.Context(), service, 0)
			if err == nil {
				err = n.KeepStopped(t.Context(), c)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := os.ReadFile(dropIn)
	if err != nil || !strings.Contains(string(text), "Restart=no\nExecStop=\n") || !strings.Contains(string(text), "ConditionPathExists=!"+dropIn+"\n") {
		t.Errorf("drop-in: %s, %v", text, err)
	}
	if _, err := os.Lstat(strings.Replace(unit, "nova_compute", "iscsid", 1) + ".d"); err == nil {
		t.Error("a container without a unit has a drop-in")
	}
	e.done = e.done[2:]
	for _, named := range []bool{false, true} {
		for _, service := range []string{"nova-compute", "iscsid"} {
			c, err := n.Container(t.Context(), service, 0)
			if err == nil {
				err = n.Return(t.Context(), c, named)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := os.Lstat(filepath.Dir(dropIn)); err == nil {
		t.Error("the drop-in is left")
	}
	if got, want := strings.Join(e.done, ", "), "update id-nova_compute nova_compute no, update id-iscsid iscsid-g0 no, "+
		"update id-nova_compute nova_compute unless-stopped, start id-nova_compute, update id-iscsid iscsid no, start id-iscsid, "+
		"update id-nova_compute nova_compute unless-stopped, start id-nova_compute, update id-iscsid iscsid no, start id-iscsid"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The unit of a container that has the name of its service starts the service's container as long as
// that has the name, so it is held until then.
func TestReturnNamesake(t *testing.T) {
	n, _ := adoptedNode(t)
	unit := n.Path("/etc/systemd/system/kolla-iscsid-container.service")
	if err := errors.Join(os.MkdirAll(filepath.Dir(unit), 0o755), os.WriteFile(unit, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	do := func(step func(containers.Container) error) {
		t.Helper()
		c, err := n.Container(t.Context(), "iscsid", 0)
		if err == nil {
			err = step(c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	held := func(want bool) {
		t.Helper()
		if _, err := os.Lstat(unit + ".d/kollet.conf"); (err == nil) != want {
			t.Errorf("the unit is held: %v, want %v", err == nil, want)
		}
	}
	do(func(c containers.Container) error { return n.KeepStopped(t.Context(), c) })
	held(true)
	do(func(c containers.Container) error {
		c.Spec.Name = StagedName("iscsid", 0)
		return n.Return(t.Context(), c, false)
	})
	held(true)
	do(func(c containers.Container) error { return n.Return(t.Context(), c, true) })
	held(false)
}

// The unit may have been removed while it was held.
func TestReturnWithoutUnit(t *testing.T) {
	n, _ := adoptedNode(t)
	unit := n.Path("/etc/systemd/system/kolla-nova_compute-container.service")
	c, err := n.Container(t.Context(), "nova-compute", 0)
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(unit), 0o755), os.WriteFile(unit, nil, 0o600), n.KeepStopped(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(unit + ".d/kollet.conf"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(unit), n.Return(t.Context(), c, true)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(unit + ".d"); err == nil {
		t.Error("the drop-in is left")
	}
}
