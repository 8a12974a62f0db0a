package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/kollet/kollet/containers"
)

var loadTests = []test{
	{"archive is loaded without a registry", loadsImages},
	{"name moves to the loaded image", loadMovesName},
	{"loading an archive again changes nothing", func(t *testing.T, s *suite) {
		image := baseImage(t, "again")
		for range 2 {
			must(t, s.Engine.Load(t.Context(), saved(t, map[string]v1.Image{"load/again:1": image})))
			s.loaded(t, "load/again:1", image)
		}
		// A pulled image has a digest, which loading keeps.
		pulled := s.pushAndPull(t, "load/again:1", image)
		must(t, s.Engine.Load(t.Context(), saved(t, map[string]v1.Image{"load/again:1": image})))
		found, err := s.Engine.Image(t.Context(), pulled.Digest)
		must(t, err)
		equal(t, "id by digest", found.ID, pulled.ID)
	}},
	{"OCI image layout is loaded, or refused with a remedy", loadsLayout},
	{"truncated archive", func(t *testing.T, s *suite) {
		whole := read(t, saved(t, map[string]v1.Image{"load/short:1": withNoise(t, baseImage(t, "short"), 1<<20)}))
		err := s.Engine.Load(t.Context(), bytes.NewReader(whole[:len(whole)/2]))
		wantError(t, err, "loading images", "archive is damaged", "copy it again")
		s.notLoaded(t, "load/short:1")
	}},
	{"layer with changed content", func(t *testing.T, s *suite) {
		// As docker save writes it: layers are not compressed, and their only
		// checksum is in the image's configuration.
		var layer bytes.Buffer
		w := tar.NewWriter(&layer)
		must(t, w.WriteHeader(&tar.Header{Name: "word", Mode: 0o644, Size: 14}))
		_, err := io.WriteString(w, "flip this word")
		must(t, err)
		must(t, w.Close())
		image, err := mutate.AppendLayers(baseImage(t, "to be flipped"), static.NewLayer(layer.Bytes(), types.DockerUncompressedLayer))
		must(t, err)
		whole := read(t, saved(t, map[string]v1.Image{"load/flipped:1": image}))
		must(t, s.Engine.Load(t.Context(), bytes.NewReader(whole)))
		must(t, s.Engine.RemoveImage(t.Context(), s.loaded(t, "load/flipped:1", image).ID))
		at := bytes.Index(whole, []byte("flip this word"))
		if at < 0 {
			t.Fatal("the archive's layers are compressed")
		}
		whole[at] ^= 1
		if s.TrustsLayers {
			must(t, s.Engine.Load(t.Context(), bytes.NewReader(whole)))
			return
		}
		wantError(t, s.Engine.Load(t.Context(), bytes.NewReader(whole)), "loading images", "archive is damaged")
		s.notLoaded(t, "load/flipped:1")
	}},
	{"not an archive", func(t *testing.T, s *suite) {
		var nothing bytes.Buffer
		must(t, tar.NewWriter(&nothing).Close())
		for what, content := range map[string]string{"nothing": "", "text": strings.Repeat("not an archive\n", 100), "an empty tar": nothing.String()} {
			if err := s.Engine.Load(t.Context(), strings.NewReader(content)); err == nil {
				t.Errorf("%s was loaded", what)
			} else {
				wantError(t, err, "loading images")
			}
		}
	}},
	{"reader fails", func(t *testing.T, s *suite) {
		whole := read(t, saved(t, map[string]v1.Image{"load/failing:1": baseImage(t, "failing")}))
		broken := io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), failing{})
		wantError(t, s.Engine.Load(t.Context(), broken), "loading images")
		s.notLoaded(t, "load/failing:1")
	}},
	{"load can be cancelled", func(t *testing.T, s *suite) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		whole := read(t, saved(t, map[string]v1.Image{"load/cancel:1": baseImage(t, "cancel load")}))
		half := bytes.NewReader(whole[:len(whole)/2])
		err := s.Engine.Load(ctx, io.MultiReader(half, calls{cancel}, bytes.NewReader(whole[len(whole)/2:])))
		wantErrorIs(t, err, context.Canceled)
		s.notLoaded(t, "load/cancel:1")
		must(t, s.Engine.Load(t.Context(), bytes.NewReader(whole)))
	}},
}

func loadsImages(t *testing.T, s *suite) {
	s.Registry.Stop()
	defer s.Registry.Start()
	images := map[string]v1.Image{
		s.Registry.Addr + "/load/first:1": baseImage(t, "first of an archive"),
		"load/second:2":                   withNoise(t, baseImage(t, "second of an archive"), 1<<20),
		"load-third":                      baseImage(t, "third of an archive"),
	}
	must(t, s.Engine.Load(t.Context(), saved(t, images)))
	for ref, image := range images {
		found := s.loaded(t, ref, image)
		byID, err := s.Engine.Image(t.Context(), found.ID)
		must(t, err)
		equal(t, "id by id", byID.ID, found.ID)
		// Use the image as kollet does: by digest if it has one, else by id.
		spec := s.script("echo running")
		if spec.Image = found.ID; found.Digest != "" {
			spec.Image = found.Digest
		}
		id := s.start(t, spec)
		c := s.await(t, id, containers.StateExited)
		equal(t, "image of the container", c.ImageID, found.ID)
		equal(t, "output", s.logs(t, id, containers.LogOptions{}), "running\n")
		must(t, s.Engine.Remove(t.Context(), id))
		must(t, s.Engine.RemoveImage(t.Context(), found.ID))
		s.notLoaded(t, ref)
	}
}

func loadMovesName(t *testing.T, s *suite) {
	before, after := baseImage(t, "loaded before"), baseImage(t, "loaded after")
	must(t, s.Engine.Load(t.Context(), saved(t, map[string]v1.Image{"load/moving:1": before})))
	old := s.loaded(t, "load/moving:1", before)
	must(t, s.Engine.Load(t.Context(), saved(t, map[string]v1.Image{"load/moving:1": after})))
	s.loaded(t, "load/moving:1", after)
	if now, err := s.Engine.Image(t.Context(), "load/moving:1"); err != nil || now.ID == old.ID {
		t.Errorf("the name is that of the previous image, %v", err)
	}
	found, err := s.Engine.Image(t.Context(), old.ID) // a generation may still use it
	must(t, err)
	equal(t, "id of the previous image", found.ID, old.ID)
}

func loadsLayout(t *testing.T, s *suite) {
	image := baseImage(t, "in a layout")
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	must(t, err)
	must(t, path.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "example.org/load/layout:1"})))
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	must(t, w.AddFS(os.DirFS(dir)))
	must(t, w.Close())
	err = s.Engine.Load(t.Context(), &out)
	if s.Layouts {
		must(t, err)
		s.loaded(t, "example.org/load/layout:1", image)
		return
	}
	wantError(t, err, "loading images", "docker save")
	s.notLoaded(t, "example.org/load/layout:1")
}

// saved returns an archive in the format of docker save.
func saved(t *testing.T, images map[string]v1.Image) io.Reader {
	t.Helper()
	refs := map[name.Reference]v1.Image{}
	for ref, image := range images {
		parsed, err := name.NewTag(ref)
		must(t, err)
		refs[parsed] = image
	}
	var out bytes.Buffer
	must(t, tarball.MultiRefWrite(refs, &out))
	return &out
}

func read(t *testing.T, r io.Reader) []byte {
	t.Helper()
	data, err := io.ReadAll(r)
	must(t, err)
	return data
}

// loaded checks that a name refers to an image.
func (s *suite) loaded(t *testing.T, ref string, image v1.Image) containers.Image {
	t.Helper()
	id, err := image.ConfigName()
	must(t, err)
	found, err := s.Engine.Image(t.Context(), ref)
	must(t, err)
	if !s.ManifestIDs { // the engine makes a manifest of what it loads
		equal(t, "id of "+ref, found.ID, id.String())
	}
	equal(t, "working directory of "+ref, found.WorkingDir, fromImage.WorkingDir)
	return found
}

func (s *suite) notLoaded(t *testing.T, ref string) {
	t.Helper()
	_, err := s.Engine.Image(t.Context(), ref)
	wantErrorIs(t, err, containers.ErrNotFound)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the drive was removed") }

// calls is an empty reader that calls a function when it is read.
type calls struct{ f func() }

func (c calls) Read([]byte) (int, error) { c.f(); return 0, io.EOF }
