package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// Pulled tells which images the next upgrade needs, all of them on this machine
// now.
type Pulled struct {
	Images []PulledImage `json:"images"` // by the first service that needs it
}

// PulledImage is one image that the next upgrade needs.
type PulledImage struct {
	Services []string `json:"services"`
	Ref      string   `json:"ref"`
	ID       string   `json:"id"`
	Digest   string   `json:"digest,omitempty"`
	New      bool     `json:"new"` // it was not on this machine, or was another one
}

// Pull fetches the images that the next upgrade would need and changes nothing
// else: neither what runs nor what an interrupted upgrade left. Until an upgrade
// uses them, or another pull takes their place, they are kept.
func (a *Agent) Pull(ctx context.Context, opts Options) (Pulled, error) {
	t, err := a.read(opts, "pull")
	if err != nil {
		return Pulled{}, err
	}
	unlock, err := a.Lock()
	if err != nil {
		return Pulled{}, err
	}
	defer unlock()
	current, err := a.Store().Current()
	if err != nil {
		return Pulled{}, err
	}
	if err := sameEngine(t, current); err != nil {
		return Pulled{}, err
	}
	if err := a.images(ctx, t, current); err != nil {
		return Pulled{}, t.redact(err)
	}
	if err := a.roomFor(ctx, t); err != nil {
		return Pulled{}, err
	}
	before := imageIDs(t)
	err = a.fetch(ctx, t)
	// Those that came before one failed are kept too: the next try needs them.
	if kept := a.keepAhead(t, current); err == nil {
		err = kept
	}
	return pulled(t, before), t.redact(err)
}

// roomFor refuses to fill a disk that is short of room.
func (a *Agent) roomFor(ctx context.Context, t *target) error {
	if len(t.wanted) == 0 {
		return nil
	}
	info, err := a.Engine.Info(ctx)
	if err != nil {
		return err
	}
	if c := a.checkDisk(info.Root); c.Level == Bad {
		return fmt.Errorf("check %s: %s; %s", c.Name, c.Text, c.Remedy)
	}
	return nil
}

func imageIDs(t *target) map[string]string {
	ids := map[string]string{}
	for _, s := range t.services {
		ids[s.Name] = s.Image.ID
	}
	return ids
}

// pulled lists a target's images, those that services share once.
func pulled(t *target, before map[string]string) Pulled {
	p := Pulled{Images: []PulledImage{}}
	for _, s := range t.services {
		if s.Image.ID == "" {
			continue // its pull failed
		}
		at := slices.IndexFunc(p.Images, func(i PulledImage) bool { return i.ID == s.Image.ID && i.Ref == s.Ref })
		if at < 0 {
			at = len(p.Images)
			p.Images = append(p.Images, PulledImage{Ref: s.Ref, ID: s.Image.ID, Digest: s.Image.Digest})
		}
		i := &p.Images[at]
		i.Services = append(i.Services, s.Name)
		i.New = i.New || before[s.Name] != s.Image.ID
	}
	return p
}

// fetch makes every image that a target wants present, several at once, and
// tells the services that want it what it is.
func (a *Agent) fetch(ctx context.Context, t *target) error {
	if err := a.load(ctx, t); err != nil {
		return err
	}
	services := map[string][]string{} // by reference
	for _, name := range slices.Sorted(maps.Keys(t.wanted)) {
		services[t.wanted[name]] = append(services[t.wanted[name]], name)
	}
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for ref, names := range services {
		g.Go(func() error {
			if t.pull == "never" {
				return fmt.Errorf("pull %s: %s is not on this machine, and images.pull is never%s; load it first", names[0], ref, t.nowhere())
			}
			image, err := a.Engine.Pull(gctx, ref, func(p containers.Progress) {
				mu.Lock()
				defer mu.Unlock()
				a.Emit(node.Event{Kind: node.Pulling, Service: names[0], Done: p.Done, Total: p.Total, Text: p.Status})
			})
			if err != nil {
				return fmt.Errorf("pull %s: %w%s", names[0], err, t.nowhere())
			}
			mu.Lock()
			defer mu.Unlock()
			return t.bindAll(names, ref, image)
		})
	}
	return g.Wait()
}

// bindAll tells services which image their reference means.
func (t *target) bindAll(names []string, ref string, image containers.Image) error {
	for i := range t.services {
		s := &t.services[i]
		if !slices.Contains(names, s.Name) {
			continue
		}
		if t.recalled && image.ID != s.Image.ID {
			return fmt.Errorf("pull %s: the image of that generation is gone: %s is another one by now", s.Name, ref)
		}
		bind(s, image)
	}
	return nil
}

// keepAhead notes which images garbage collection must leave to the next
// upgrade: those that the running generation does not have itself.
func (a *Agent) keepAhead(t *target, current generation.Generation) error {
	ahead, err := a.Store().Ahead()
	if err != nil {
		return err
	}
	var next []string
	for _, s := range t.services {
		runs := slices.ContainsFunc(current.Services, func(old generation.Service) bool { return old.Image.ID == s.Image.ID })
		if s.Image.ID != "" && !runs {
			next = append(next, s.Image.ID)
		}
	}
	return a.Store().SetAhead(ahead.Next(next))
}

// useAhead notes that a generation keeps what was pulled ahead of it.
func (a *Agent) useAhead(g generation.Generation) error {
	ahead, err := a.Store().Ahead()
	if err != nil {
		return err
	}
	return a.Store().SetAhead(ahead.Used(g))
}
