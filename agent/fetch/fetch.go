// Package fetch makes the images of a target present on this machine: from image
// archives if there are any, else from their registry.
package fetch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

// parallel bounds how many images are pulled at once.
const parallel = 4

// fetcher fetches the images of one target.
type fetcher struct {
	node     *node.Node
	target   *target.Target
	images   target.Images
	before   map[string]bool // the ids of those that were present
	archives []string        // why image archives did not provide an image
	arrivals *node.Arrivals
}

// Images makes every image that a target needs present, several at once, also after a
// power loss. It returns what is present then, also when it fails: the next try needs it.
func Images(ctx context.Context, n *node.Node, t *target.Target, images target.Images) (target.Images, error) {
	f := &fetcher{node: n, target: t, images: images.Clone(), before: map[string]bool{}, arrivals: node.NewArrivals(t.StallTimeout)}
	for _, image := range images.Present {
		f.before[image.ID] = true
	}
	if err := f.load(ctx); err != nil {
		return f.images, err
	}
	services := map[string][]string{} // by reference
	for _, name := range slices.Sorted(maps.Keys(f.images.ToPull)) {
		services[f.images.ToPull[name]] = append(services[f.images.ToPull[name]], name)
	}
	var mu sync.Mutex // guards f and progress
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for ref, names := range services {
		g.Go(func() error { return f.pull(gctx, &mu, ref, names) })
	}
	err := g.Wait()
	if len(f.images.Present) > len(images.Present) {
		// Also after an interruption: an image that is present is not pulled again.
		if failed := n.Sync(context.WithoutCancel(ctx)); err == nil {
			err = failed
		}
	}
	return f.images, err
}

// pull pulls one image and assigns it to the services that need it.
func (f *fetcher) pull(ctx context.Context, mu *sync.Mutex, ref string, names []string) error {
	if f.target.Pull == "never" {
		return fmt.Errorf("pull %s: %s is not on this machine, and images.pull_policy is never%s; load it first", names[0], ref, f.archiveHint())
	}
	image, err := f.node.Pull(ctx, ref, f.arrivals, func(p containers.Progress) {
		mu.Lock()
		defer mu.Unlock()
		f.node.Emit(node.Event{Kind: node.Pulling, Service: names[0], Done: p.Done, Total: p.Total, Text: p.Status})
	})
	if err != nil {
		return fmt.Errorf("pull %s: %w%s", names[0], err, f.archiveHint())
	}
	mu.Lock()
	defer mu.Unlock()
	return f.assign(names, ref, image)
}

// assign notes which image the reference of some services means.
func (f *fetcher) assign(names []string, ref string, image containers.Image) error {
	if !f.before[image.ID] {
		if err := recordFetched(f.node, image.ID); err != nil {
			return err
		}
	}
	for _, s := range f.target.Services {
		if !slices.Contains(names, s.Name) {
			continue
		}
		if f.target.Recalled && image.ID != s.Image.ID {
			return fmt.Errorf("pull %s: the image of that generation is gone: %s is a different image now", s.Name, ref)
		}
		f.images.Present[s.Name] = image
	}
	return nil
}
