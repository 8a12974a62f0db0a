package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// parallel bounds how many images are looked up at once.
const parallel = 4

// Images is what is known of the images of a target's services.
type Images struct {
	Present map[string]containers.Image // by service: on this machine
	ToPull  map[string]string           // by service: the reference to pull
}

// Clone returns a copy that can be changed.
func (i Images) Clone() Images {
	return Images{Present: maps.Clone(i.Present), ToPull: maps.Clone(i.ToPull)}
}

// Missing lists the services whose image is not on this machine, in start order.
func (t *Target) Missing(i Images) []string {
	var names []string
	for _, s := range t.Services {
		_, present := i.Present[s.Name]
		if _, toPull := i.ToPull[s.Name]; toPull && !present {
			names = append(names, s.Name)
		}
	}
	return names
}

// With returns the target's services, completed with what their images say. A
// service whose image is not present stays as it is.
func (t *Target) With(i Images) []generation.Service {
	services := slices.Clone(t.Services)
	for n := range services {
		if image, ok := i.Present[services[n].Name]; ok {
			applyImage(&services[n], image)
		}
	}
	return services
}

// FindImages looks for every service's image on this machine, without asking a
// registry. A service whose reference is that of the current generation keeps
// the image that it meant then, wherever its tag points now; but not one of kolla-ansible, which may
// have created its container again since, from another image.
func (t *Target) FindImages(ctx context.Context, n *node.Node, current generation.Generation) (Images, error) {
	images := Images{Present: map[string]containers.Image{}, ToPull: map[string]string{}}
	var found errgroup.Group
	found.SetLimit(parallel)
	var mu sync.Mutex // guards images
	for _, s := range t.Services {
		found.Go(func() error {
			known := s.Image // set when an earlier generation is recalled
			if old, ok := current.Service(s.Name); ok && old.Origin != 0 && known.ID == "" && old.Ref == s.Ref && t.Pull != "always" {
				known = old.Image
			}
			image, err := find(ctx, n.Engine, known, s.Ref)
			if err != nil && !errors.Is(err, containers.ErrNotFound) {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				images.Present[s.Name] = image
			}
			if err != nil || t.Pull == "always" {
				images.ToPull[s.Name] = cmp.Or(known.Digest, s.Ref)
			}
			return nil
		})
	}
	err := found.Wait()
	return images, err
}

// find looks for an image that is known by its id, or else by its reference.
func find(ctx context.Context, engine containers.Engine, known generation.Image, ref string) (containers.Image, error) {
	image, err := engine.Image(ctx, cmp.Or(known.ID, ref))
	if err != nil || known.ID != image.ID || known.Digest == image.Digest {
		return image, err
	}
	if known.Digest == "" { // it was loaded, and pulled since
		image.Digest = ""
		return image, nil
	}
	if image.Digest == "" { // it was untagged: its id is the only name that is left
		return image, nil
	}
	// Of several digests, the engine names any.
	switch _, err := engine.Image(ctx, known.Digest); {
	case err == nil:
		image.Digest = known.Digest
	case !errors.Is(err, containers.ErrNotFound):
		return image, err
	}
	return image, nil
}

// applyImage fills in what only a service's image can say: the program and the
// user that runs it.
func applyImage(s *generation.Service, image containers.Image) {
	s.Image = generation.Image{ID: image.ID, Digest: image.Digest}
	entrypoint, command := s.Spec.Entrypoint, s.Spec.Command
	if len(entrypoint) == 0 {
		entrypoint = image.Entrypoint
		if len(command) == 0 {
			command = image.Command
		}
	}
	s.Argv, s.Command = slices.Concat(entrypoint, command), nil
	switch own := s.Spec.Entrypoint; {
	case len(own) == 0 && slices.Equal(image.Command, []string{node.KollaStart}):
		s.Argv, s.Command = slices.Concat(image.Entrypoint, image.Command), s.Spec.Command
	case len(own) > 0 && own[len(own)-1] == node.KollaStart: // which takes no arguments
		s.Argv, s.Command = own, s.Spec.Command
	}
	s.User = cmp.Or(s.Spec.User, image.User)
	s.StopSignal = cmp.Or(s.Spec.StopSignal, image.StopSignal, "SIGTERM")
}
