package target

import (
	"context"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// names is an engine whose images have these names.
type names struct {
	containers.Engine
	images map[string]containers.Image
}

func (n names) Image(_ context.Context, ref string) (containers.Image, error) {
	image, ok := n.images[ref]
	if !ok {
		return image, containers.ErrNotFound
	}
	return image, nil
}

// A container is created from the image's digest, which has to be one of its names.
func TestDigestOfKnownImage(t *testing.T) {
	const id, digest, other = "sha256:1", "r/i@sha256:a", "r/i@sha256:b"
	image := func(digest string) containers.Image { return containers.Image{ID: id, Digest: digest} }
	for name, c := range map[string]struct {
		images map[string]containers.Image
		known  generation.Image
		want   string
	}{
		"unchanged":          {map[string]containers.Image{id: image(digest)}, generation.Image{ID: id, Digest: digest}, digest},
		"of several digests": {map[string]containers.Image{id: image(other), digest: image(digest)}, generation.Image{ID: id, Digest: digest}, digest},
		"another name":       {map[string]containers.Image{id: image(other)}, generation.Image{ID: id, Digest: digest}, other},
		"untagged":           {map[string]containers.Image{id: image("")}, generation.Image{ID: id, Digest: digest}, ""},
		"loaded":             {map[string]containers.Image{id: image("")}, generation.Image{ID: id}, ""},
		"loaded, and pulled": {map[string]containers.Image{id: image(digest)}, generation.Image{ID: id}, ""},
		"not known":          {map[string]containers.Image{"r/i:v1": image(digest)}, generation.Image{}, digest},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := find(t.Context(), names{images: c.images}, c.known, "r/i:v1")
			if err != nil || got.ID != id || got.Digest != c.want {
				t.Errorf("got %+v, %v; want %q", got, err, c.want)
			}
		})
	}
}

// A tag may mean another image than when kollet used it: the service keeps its image. That of a
// container of kolla-ansible may be another one now.
func TestMovedTag(t *testing.T) {
	const ref = "r/i:v1"
	engine := names{images: map[string]containers.Image{"sha256:1": {ID: "sha256:1"}, "sha256:2": {ID: "sha256:2"}, ref: {ID: "sha256:2"}}}
	for origin, want := range map[int]string{0: "sha256:2", 3: "sha256:1"} {
		current := generation.Generation{Number: 3, Services: []generation.Service{{Name: "s", Ref: ref, Origin: origin, Image: generation.Image{ID: "sha256:1"}}}}
		target := &Target{Pull: "missing", Services: []generation.Service{{Name: "s", Ref: ref}}}
		images, err := target.FindImages(t.Context(), &node.Node{Engine: engine}, current)
		if err != nil || images.Present["s"].ID != want {
			t.Errorf("origin %d: %+v, %v; want %s", origin, images, err, want)
		}
	}
}
