package node

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/containers"
)

// Recognising returns the node's engine, which then also shows the containers of generation 0 as
// those of this node: with the labels that containers of kollet have. They were created by
// kolla-ansible, and an engine cannot change a container's labels.
func (n *Node) Recognising() containers.Engine {
	if n.Engine == nil {
		return nil
	}
	return recognising{n.Engine, n.Store(), n.State()}
}

type recognising struct {
	containers.Engine
	store generation.Store
	state string
}

// labels returns the labels of a container of generation 0; none for another.
func (e recognising) labels(a generation.Adopted, id string) map[string]string {
	for service, c := range a.Containers {
		if c.ID == id {
			return map[string]string{LabelNode: e.state, LabelService: service, LabelGeneration: "0"}
		}
	}
	return nil
}

func (e recognising) recognise(a generation.Adopted, c containers.Container) containers.Container {
	if own := e.labels(a, c.ID); own != nil {
		labels := maps.Clone(c.Spec.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, own)
		c.Spec.Labels = labels
	}
	return c
}

// Inspect returns a container by its full id or its name.
func (e recognising) Inspect(ctx context.Context, id string) (containers.Container, error) {
	c, err := e.Engine.Inspect(ctx, id)
	if err != nil {
		return c, err
	}
	a, err := e.store.Adopted()
	return e.recognise(a, c), err
}

// List returns all containers that have every one of the labels.
func (e recognising) List(ctx context.Context, labels map[string]string) ([]containers.Container, error) {
	all, err := e.Engine.List(ctx, labels)
	if err != nil {
		return nil, err
	}
	a, err := e.store.Adopted()
	if err != nil {
		return nil, err
	}
	for i, c := range all {
		all[i] = e.recognise(a, c)
	}
	for _, adopted := range a.Containers {
		listed := func(c containers.Container) bool { return c.ID == adopted.ID }
		if !containers.HasLabels(e.labels(a, adopted.ID), labels) || slices.ContainsFunc(all, listed) {
			continue
		}
		c, err := e.Engine.Inspect(ctx, adopted.ID)
		if errors.Is(err, containers.ErrNotFound) {
			continue // it was removed manually
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e.recognise(a, c))
	}
	return all, nil
}

// IsAdopted reports whether a container is one of generation 0, which kollet did not create.
func IsAdopted(c containers.Container) bool { return c.Spec.Labels[LabelGeneration] == "0" }

// ServiceVariable is in the environment of every container that kolla-ansible makes.
const ServiceVariable = "KOLLA_SERVICE_NAME"

// IsKolla reports whether kolla-ansible made a container: all of its containers have the
// variable or the mount (kolla-ansible: module_utils/kolla_container_worker.py and
// group_vars). Those of kollet have them too.
func IsKolla(c containers.Container) bool {
	if c.Spec.Labels[LabelNode] != "" && !IsAdopted(c) {
		return false
	}
	_, named := c.Spec.Env[ServiceVariable]
	return named || slices.ContainsFunc(c.Spec.Mounts, IsConfigMount)
}

// IsConfigMount reports whether a mount has a service's config files.
func IsConfigMount(m containers.Mount) bool { return filepath.Clean(m.Target) == gate.Config }

// adopted returns the containers of generation 0 as guests are recognised by them.
func (n *Node) adopted() guest.Adopted {
	a, _ := n.Store().Adopted() // other functions report that it cannot be read
	found := guest.Adopted{Directory: a.Directory, Services: map[string]string{}}
	for service, c := range a.Containers {
		found.Services[c.ID] = service
	}
	for _, s := range a.Generation.Services {
		if s.Guests != nil {
			found.Libvirt = s.Name
		}
	}
	return found
}

// KeepStopped keeps a container of generation 0 from being started by anything but kollet, and
// takes its service's name from it.
func (n *Node) KeepStopped(ctx context.Context, c containers.Container) error {
	service := c.Spec.Labels[LabelService]
	a, err := n.Store().Adopted()
	if err != nil {
		return err
	}
	name := a.Containers[service].Name
	if name == service {
		name = StagedName(service, 0)
	}
	if err := n.holdUnit(ctx, a.Containers[service].Name); err != nil {
		return err
	}
	return n.Engine.Update(ctx, c.ID, name, containers.RestartNo)
}

// Hold keeps what made a container of generation 0 from starting it again, before it is stopped.
func (n *Node) Hold(ctx context.Context, c containers.Container) error {
	if !IsAdopted(c) {
		return nil
	}
	a, err := n.Store().Adopted()
	if err != nil {
		return err
	}
	return n.holdUnit(ctx, a.Containers[c.Spec.Labels[LabelService]].Name)
}

// IsHeld reports whether nothing starts a container of generation 0 again, as after Hold and an update of
// its policy. One that systemd starts always has a policy by which the engine does not: only its unit
// tells.
func (n *Node) IsHeld(c containers.Container) (bool, error) {
	if c.Spec.Restart != containers.RestartNo {
		return false, nil
	}
	a, err := n.Store().Adopted()
	if err != nil {
		return false, err
	}
	was := a.Containers[c.Spec.Labels[LabelService]]
	if was.Restart != containers.RestartNo || !n.hasUnit(was.Name) {
		return true, nil
	}
	_, err = os.Lstat(n.dropIn(was.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, err
}

// Return gives a container of generation 0 back to what made it: with its name if that is free, its
// restart policy and its unit, running. Without its name, the unit stays held: it would start the
// container that has the name.
func (n *Node) Return(ctx context.Context, c containers.Container, named bool) error {
	a, err := n.Store().Adopted()
	if err != nil {
		return err
	}
	was := a.Containers[c.Spec.Labels[LabelService]]
	name := c.Spec.Name
	if named {
		name = was.Name
	}
	if err := n.Engine.Update(ctx, c.ID, name, was.Restart); err != nil {
		return err
	}
	now, err := n.Engine.Inspect(ctx, c.ID)
	if err != nil {
		return err
	}
	if now.State.Stopped() {
		if err := n.settleUnit(ctx, was.Name); err != nil {
			return err
		}
	}
	err = n.Engine.Start(ctx, c.ID)
	if name != was.Name {
		return err
	}
	if err != nil {
		return errors.Join(err, n.letGo(ctx, was.Name)) // kolla-ansible may replace it
	}
	return n.releaseUnit(ctx, was.Name)
}

// LetGo gives the unit of a container of generation 0 back that was removed: kolla-ansible may create
// it again. For another container it does nothing.
func (n *Node) LetGo(ctx context.Context, id string) error {
	a, err := n.Store().Adopted()
	for _, was := range a.Containers {
		if was.ID == id && err == nil {
			err = errors.Join(n.settleUnit(ctx, was.Name), n.letGo(ctx, was.Name))
		}
	}
	return err
}
