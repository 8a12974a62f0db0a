package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/kollet/kollet/containers"
)

var infoTests = []test{
	{"info", func(t *testing.T, s *suite) {
		info, err := s.Engine.Info(t.Context())
		must(t, err)
		if info.Name == "" || info.Version == "" || info.Address == "" {
			t.Errorf("incomplete: %+v", info)
		}
		if d, err := os.Stat(info.Root); err != nil || !d.IsDir() {
			t.Errorf("root %q: %v", info.Root, err)
		}
	}},
	{"info with a cancelled context", func(t *testing.T, s *suite) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Engine.Info(ctx)
		wantErrorIs(t, err, context.Canceled)
	}},
}

var imageTests = []test{
	{"find by tag, digest and id", func(t *testing.T, s *suite) {
		for _, ref := range []string{s.Registry.Addr + "/conformance/base:1", s.base.Digest, s.base.ID} {
			found, err := s.Engine.Image(t.Context(), ref)
			must(t, err)
			equal(t, "id by "+ref, found.ID, s.base.ID)
			equal(t, "digest by "+ref, found.Digest, s.base.Digest)
		}
	}},
	{"absent image is not found", func(t *testing.T, s *suite) {
		for _, ref := range []string{s.Registry.Addr + "/conformance/missing:1", "sha256:" + strings.Repeat("0123456789abcdef", 4)} {
			_, err := s.Engine.Image(t.Context(), ref)
			wantErrorIs(t, err, containers.ErrNotFound)
			wantError(t, err, ref)
		}
	}},
	{"image configuration", func(t *testing.T, s *suite) {
		i := s.base
		if !slices.Equal(i.Entrypoint, fromImage.Entrypoint) || !slices.Equal(i.Command, fromImage.Cmd) || !slices.Equal(i.Env, fromImage.Env) {
			t.Errorf("got %+v, pushed %+v", i, fromImage)
		}
		equal(t, "working directory", i.WorkingDir, fromImage.WorkingDir)
		equal(t, "stop signal", i.StopSignal, fromImage.StopSignal)
		if !strings.HasPrefix(i.Digest, s.Registry.Addr+"/conformance/base@sha256:") || i.Size <= 0 {
			t.Errorf("digest %q, size %d", i.Digest, i.Size)
		}
	}},
	{"pull reports progress", pullReportsProgress},
	{"pull follows a tag that moved", pullFollowsTag},
	{"pull returns the current digest of a tag", func(t *testing.T, s *suite) {
		// Two manifests with the same content, and therefore the same id.
		image := baseImage(t, "two digests")
		other, ok := mutate.Annotations(image, map[string]string{"pushed": "again"}).(v1.Image)
		if !ok {
			t.Fatal("an image with annotations is not an image")
		}
		for i, image := range []v1.Image{image, other, image} {
			digest, err := image.Digest()
			must(t, err)
			pulled := s.pushAndPull(t, "conformance/twice:1", image)
			equal(t, fmt.Sprint("digest of pull ", i), pulled.Digest, s.Registry.Addr+"/conformance/twice@"+digest.String())
		}
	}},
	{"pull by digest", func(t *testing.T, s *suite) {
		pulled, err := s.Engine.Pull(t.Context(), s.base.Digest, nil)
		must(t, err)
		equal(t, "digest", pulled.Digest, s.base.Digest)
		equal(t, "id", pulled.ID, s.base.ID)
	}},
	{"pull of a missing tag or name is not found", func(t *testing.T, s *suite) {
		for _, ref := range []string{s.Registry.Addr + "/conformance/base:missing", s.Registry.Addr + "/conformance/missing:1"} {
			_, err := s.Engine.Pull(t.Context(), ref, nil)
			wantErrorIs(t, err, containers.ErrNotFound)
			wantError(t, err, ref, "check")
		}
	}},
	{"pull without a registry", func(t *testing.T, s *suite) {
		s.Registry.Stop()
		defer s.Registry.Start()
		ref := s.Registry.Addr + "/conformance/base:1"
		_, err := s.Engine.Pull(t.Context(), ref, nil)
		wantError(t, err, ref, "cannot be reached", "check")
		wantErrorIs(t, err, containers.ErrRegistryUnreachable)
		if errors.Is(err, containers.ErrNotFound) || errors.Is(err, containers.ErrUnreachable) {
			t.Errorf("error of the image or the engine: %v", err)
		}
		_, err = s.Engine.Image(t.Context(), ref)
		must(t, err)
	}},
	{"pull refuses an invalid name", func(t *testing.T, s *suite) {
		for _, ref := range []string{"", "Upper/case:1", s.base.ID} {
			_, err := s.Engine.Pull(t.Context(), ref, nil)
			wantError(t, err, "image")
		}
	}},
	{"pull can be cancelled", func(t *testing.T, s *suite) {
		ref := s.push(t, "conformance/cancel:1", withNoise(t, baseImage(t, "cancel"), 8<<20))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := s.Engine.Pull(ctx, ref, func(containers.Progress) { cancel() })
		wantErrorIs(t, err, context.Canceled)
		_, err = s.Engine.Pull(t.Context(), ref, nil)
		must(t, err)
	}},
	{"image in use is not removed", imageInUse},
	{"image is removed with all its names", func(t *testing.T, s *suite) {
		image := baseImage(t, "many names")
		refs := []string{s.push(t, "conformance/many:1", image), s.push(t, "conformance/many:2", image), s.push(t, "conformance/other:1", image)}
		var pulled containers.Image
		for _, ref := range refs {
			var err error
			pulled, err = s.Engine.Pull(t.Context(), ref, nil)
			must(t, err)
		}
		must(t, s.Engine.RemoveImage(t.Context(), pulled.ID))
		for _, ref := range append(refs, pulled.ID, pulled.Digest) {
			_, err := s.Engine.Image(t.Context(), ref)
			wantErrorIs(t, err, containers.ErrNotFound)
		}
		must(t, s.Engine.RemoveImage(t.Context(), pulled.ID))
	}},
}

func pullReportsProgress(t *testing.T, s *suite) {
	const size = 6 << 20
	ref := s.push(t, "conformance/progress:1", withNoise(t, withNoise(t, baseImage(t, "progress"), size), size))
	var steps []containers.Progress
	_, err := s.Engine.Pull(t.Context(), ref, func(p containers.Progress) { steps = append(steps, p) })
	must(t, err)
	if len(steps) == 0 {
		t.Fatal("no progress reported")
	}
	for _, p := range steps {
		if p.Done < 0 || p.Done > p.Total {
			t.Errorf("done %d of %d", p.Done, p.Total)
		}
	}
	if last := steps[len(steps)-1]; s.HidesSizes {
		equal(t, "last progress", last.Status, "3 of 3 layers")
	} else if last.Done != last.Total || last.Total < 2*size {
		t.Errorf("last progress is %d of %d bytes, pushed more than %d", last.Done, last.Total, 2*size)
	}
	steps = nil
	_, err = s.Engine.Pull(t.Context(), ref, func(p containers.Progress) { steps = append(steps, p) })
	must(t, err)
	for _, p := range steps {
		if p.Total != 0 {
			t.Errorf("layers that were present were fetched again: %+v", p)
		}
	}
}

func pullFollowsTag(t *testing.T, s *suite) {
	first := s.pushAndPull(t, "conformance/moving:1", baseImage(t, "before"))
	second := s.pushAndPull(t, "conformance/moving:1", baseImage(t, "after"))
	if first.ID == second.ID || first.Digest == second.Digest {
		t.Fatalf("the tag moved, but the pull fetched %s again", second.Digest)
	}
	for _, image := range []containers.Image{first, second} {
		found, err := s.Engine.Image(t.Context(), image.Digest)
		must(t, err)
		equal(t, "id by digest", found.ID, image.ID)
	}
	now, err := s.Engine.Image(t.Context(), s.Registry.Addr+"/conformance/moving:1")
	must(t, err)
	equal(t, "id by tag", now.ID, second.ID)
}

func imageInUse(t *testing.T, s *suite) {
	ref := s.push(t, "conformance/used:1", baseImage(t, "in use"))
	image, err := s.Engine.Pull(t.Context(), ref, nil)
	must(t, err)
	for _, pinned := range []string{image.Digest, image.ID} {
		spec := s.script("true")
		spec.Image = pinned
		id := s.create(t, spec)
		wantError(t, s.Engine.RemoveImage(t.Context(), image.ID), image.ID, "uses it")
		found, err := s.Engine.Image(t.Context(), ref)
		must(t, err)
		equal(t, "digest after the failed removal", found.Digest, image.Digest)
		must(t, s.Engine.Start(t.Context(), id))
		s.await(t, id, containers.StateExited)
		wantError(t, s.Engine.RemoveImage(t.Context(), image.ID), "uses it")
		must(t, s.Engine.Remove(t.Context(), id))
	}
	must(t, s.Engine.RemoveImage(t.Context(), image.ID))
}
