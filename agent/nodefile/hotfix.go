package nodefile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kollet/kollet/configs/report"
)

// Change overrides parts of a node file. Empty fields are ignored.
type Change struct {
	Tag        string            // images.tag
	PullPolicy string            // images.pull_policy
	Images     map[string]string // service: image

	Kept       Hotfix   // of the current generation
	DropTag    bool     // do not keep its tag
	DropImages []string // services of which not to keep its image
}

// Hotfix is the tag and the images that an operator gave with --tag and --image instead of
// the node file's. A node keeps them until they are dropped or the node file says the same.
type Hotfix struct {
	Tag    string            `json:"tag,omitempty"`
	Images map[string]string `json:"images,omitempty"` // service: image, as it was given
}

// IsZero reports whether the node has what its node file says.
func (h Hotfix) IsZero() bool { return h.Tag == "" && len(h.Images) == 0 }

// Equal reports whether two hotfixes are the same.
func (h Hotfix) Equal(other Hotfix) bool {
	return h.Tag == other.Tag && maps.Equal(h.Images, other.Images)
}

// apply sets what a change says, and remembers what of it the node file does not say.
func (n *Node) apply(c Change, problems *report.Problems) {
	n.checkDrops(c, problems)
	for name, service := range n.Services {
		service.InsteadOf = n.Images.Complete(service.Image)
		n.Services[name] = service
	}
	if c.PullPolicy != "" {
		n.Images.PullPolicy = c.PullPolicy
	}
	n.FileTag = n.Images.Tag
	if tag := c.tag(); tag != "" && tag != n.FileTag {
		n.Images.Tag, n.Hotfix.Tag = tag, tag
	}
	for name, image := range c.kept() {
		if service, ok := n.Services[name]; ok && !service.Disabled {
			n.replace(name, image)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Images)) {
		if _, ok := n.Services[name]; !ok {
			problems.Add(fmt.Errorf("--image %s=…: the node has no service %q%s", name, name, report.DidYouMean(name, slices.Sorted(maps.Keys(n.Services)))))
			continue
		}
		n.replace(name, c.Images[name])
	}
}

// replace gives a service another image.
func (n *Node) replace(name, image string) {
	service := n.Services[name]
	otherwise := n.Images.Complete(service.Image) // also with another tag
	service.Image = image
	n.Services[name] = service
	if given := n.Images.Complete(image); given == service.InsteadOf && given == otherwise {
		return // the node file says the same
	}
	if n.Hotfix.Images == nil {
		n.Hotfix.Images = map[string]string{}
	}
	n.Hotfix.Images[name] = image
}

// tag returns the tag that replaces images.tag; empty: none.
func (c Change) tag() string {
	if c.Tag != "" || c.DropTag {
		return c.Tag
	}
	return c.Kept.Tag
}

// kept returns the current generation's images that are neither dropped nor replaced.
func (c Change) kept() map[string]string {
	kept := maps.Clone(c.Kept.Images)
	maps.DeleteFunc(kept, func(name, _ string) bool {
		_, given := c.Images[name]
		return given || slices.Contains(c.DropImages, name)
	})
	return kept
}

func (n *Node) checkDrops(c Change, problems *report.Problems) {
	if c.DropTag && c.Tag != "" {
		problems.Add(fmt.Errorf("--drop-tag: --tag %s gives another tag; use one of the two", c.Tag))
	}
	for _, name := range c.DropImages {
		if _, given := c.Images[name]; given {
			problems.Add(fmt.Errorf("--drop-image %s: --image gives this service another image; use one of the two", name))
		}
		_, service := n.Services[name]
		_, kept := c.Kept.Images[name]
		if !service && !kept {
			problems.Add(fmt.Errorf("--drop-image %s: the node has no service %q%s", name, name, report.DidYouMean(name, slices.Sorted(maps.Keys(n.Services)))))
		}
	}
}
