package podman

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kollet/kollet/containers"
)

// Pull fetches an image from its registry. An image has only the names by which it was pulled, and
// loses a tag that moves. So it is pulled by its digest too, for which everything is there.
func (e *Engine) Pull(ctx context.Context, ref string, progress func(containers.Progress)) (containers.Image, error) {
	if strings.Contains(ref, "@") {
		return e.Engine.Pull(ctx, ref, progress)
	}
	before, err := e.digests(ctx, ref)
	if err != nil && !errors.Is(err, containers.ErrNotFound) {
		return containers.Image{}, err
	}
	pulled, err := e.Engine.Pull(ctx, ref, progress)
	if err != nil {
		return containers.Image{}, err
	}
	after, err := e.digests(ctx, ref)
	if err != nil {
		return containers.Image{}, err
	}
	repository, _, _ := strings.Cut(pulled.Digest, "@")
	return e.byDigest(ctx, pulled, repository, before, after)
}

// byDigest pulls an image by its digest. Several manifests can be of the same image, such as that of
// an archive from which it was loaded, and Podman does not say which one it has just fetched: one
// that was not there before, if there is one.
func (e *Engine) byDigest(ctx context.Context, pulled containers.Image, repository string, before, after []string) (containers.Image, error) {
	slices.SortStableFunc(after, func(a, b string) int { return known(before, a) - known(before, b) })
	for _, digest := range after {
		if !strings.HasPrefix(digest, repository+"@") {
			continue
		}
		image, err := e.Engine.Pull(ctx, digest, nil)
		if errors.Is(err, containers.ErrNotFound) {
			continue // it is not in the registry
		}
		return image, err
	}
	return pulled, nil
}

func known(all []string, one string) int {
	if slices.Contains(all, one) {
		return 1
	}
	return 0
}

// digests returns the names with digests of an image.
func (e *Engine) digests(ctx context.Context, ref string) ([]string, error) {
	var image struct{ RepoDigests []string }
	if err := e.libpod.get(ctx, "images/"+ref+"/json", nil, &image); err != nil {
		return nil, e.Explain("pulling image "+ref, err)
	}
	return image.RepoDigests, nil
}
