package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/kollet/kollet/containers"
)

// imageConfig is what containers inherit from an image.
type imageConfig struct {
	entrypoint, command, env []string
	labels                   map[string]string
	user, dir, signal        string
	healthcheck              *container.HealthConfig
}

// Image looks up an image on this host.
func (e *Engine) Image(ctx context.Context, ref string) (containers.Image, error) {
	found, err := e.client.ImageInspect(ctx, ref)
	if err != nil {
		return containers.Image{}, e.fail("looking up image "+ref, err)
	}
	e.keepConfig(found)
	return imageOf(found, ref), nil
}

func imageOf(found image.InspectResponse, ref string) containers.Image {
	c := configOf(found)
	return containers.Image{
		ID:         found.ID,
		Digest:     digestOf(found.RepoDigests, ref),
		Size:       found.Size,
		Entrypoint: c.entrypoint,
		Command:    c.command,
		User:       c.user,
		WorkingDir: c.dir,
		Env:        c.env,
		StopSignal: c.signal,
	}
}

func configOf(found image.InspectResponse) *imageConfig {
	c := found.Config
	if c == nil {
		return &imageConfig{}
	}
	return &imageConfig{
		entrypoint: c.Entrypoint, command: c.Cmd, env: c.Env, labels: c.Labels,
		user: c.User, dir: c.WorkingDir, signal: c.StopSignal, healthcheck: c.Healthcheck,
	}
}

// imageConfig returns the configuration of the image with an id. An id is a
// digest of the content, so the result is cached.
func (e *Engine) imageConfig(ctx context.Context, id string) (*imageConfig, error) {
	e.mutex.Lock()
	c := e.images[id]
	e.mutex.Unlock()
	if c != nil {
		return c, nil
	}
	found, err := e.client.ImageInspect(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.keepConfig(found), nil
}

// keepConfig caches the configuration of an image: a lookup of an image is usually
// followed by inspecting containers that were created from it.
func (e *Engine) keepConfig(found image.InspectResponse) *imageConfig {
	c := configOf(found)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.images[found.ID] = c
	return c
}

// digestOf returns, of the digests that an image was pulled by, the one that ref
// names: the same digest, else the same repository, else any.
func digestOf(digests []string, ref string) string {
	want, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		want = nil // an id
	}
	best, rank := "", 0
	for _, d := range slices.Sorted(slices.Values(digests)) {
		named, err := reference.ParseNormalizedNamed(d)
		if err != nil {
			continue
		}
		r := 1
		if want != nil && named.Name() == want.Name() {
			r = 2
			if w, ok := want.(reference.Digested); ok && strings.HasSuffix(d, "@"+w.Digest().String()) {
				r = 3
			}
		}
		if r > rank {
			best, rank = named.String(), r
		}
	}
	return best
}

// RemoveImage removes an image by id, with all its names.
func (e *Engine) RemoveImage(ctx context.Context, id string) error {
	doing := "removing image " + id
	all, err := e.client.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return e.fail(doing, err)
	}
	for _, c := range all {
		if c.ImageID == id {
			return fmt.Errorf("%s: container %s uses it; remove the container first", doing, strings.TrimPrefix(strings.Join(c.Names, " "), "/"))
		}
	}
	// Docker removes an image with several names by id only with force, which
	// also removes it from under stopped containers, including one that is being
	// created. So the names are removed one by one, without force.
	for {
		found, err := e.client.ImageInspect(ctx, id)
		if errdefs.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return e.fail(doing, err)
		}
		target := found.ID
		if names := slices.Concat(found.RepoTags, found.RepoDigests); len(names) > 1 {
			target = names[0]
		}
		_, err = e.client.ImageRemove(ctx, target, image.RemoveOptions{PruneChildren: true})
		if err != nil && !errdefs.IsNotFound(err) {
			return e.fail(doing, err)
		}
	}
}
