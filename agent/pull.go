package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/kollet/kollet/agent/doctor"
	"github.com/kollet/kollet/agent/fetch"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/plan"
	"github.com/kollet/kollet/agent/target"
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
func (a *Agent) Pull(ctx context.Context, opts target.Options) (Pulled, error) {
	t, err := target.Read(a.node, opts, "pull")
	if err != nil {
		return Pulled{}, err
	}
	unlock, err := a.node.Lock()
	if err != nil {
		return Pulled{}, err
	}
	defer unlock()
	current, err := a.node.Current()
	if err != nil {
		return Pulled{}, err
	}
	if err := plan.SameEngine(ctx, a.node, t, current); err != nil {
		return Pulled{}, err
	}
	before, err := t.FindImages(ctx, a.node, current)
	if err != nil {
		return Pulled{}, t.Redact(err)
	}
	if len(before.ToPull) > 0 {
		if err := a.checkRoom(ctx); err != nil {
			return Pulled{}, err
		}
	}
	images, err := fetch.Images(ctx, a.node, t, before)
	services := t.With(images)
	// Images that arrived before one failed are kept too: the next try needs them.
	if kept := fetch.KeepPrefetched(a.node, services, current); err == nil {
		err = kept
	}
	return pulled(services, before), t.Redact(err)
}

// checkRoom refuses to pull onto a disk that is nearly full.
func (a *Agent) checkRoom(ctx context.Context) error {
	info, err := a.node.Engine.Info(ctx)
	if err != nil {
		return err
	}
	if c := doctor.CheckDisk(a.node.Host, info.Root); c.Level == doctor.Bad {
		return fmt.Errorf("check %s: %s; %s", c.Name, c.Text, c.Remedy)
	}
	return nil
}

// pulled lists the images of services, those that several share once.
func pulled(services []generation.Service, before target.Images) Pulled {
	p := Pulled{Images: []PulledImage{}}
	for _, s := range services {
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
		i.New = i.New || before.Present[s.Name].ID != s.Image.ID
	}
	return p
}
