package vm

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/kollet/kollet/test/machine"
)

// repository is where the node believes that its images come from. It cannot
// reach it: they come in an archive.
const repository = "registry.example.com/kolla"

// archive writes images into a file, as docker save does.
func archive(t testing.TB, path string, images map[string]v1.Image) {
	t.Helper()
	refs := map[name.Reference]v1.Image{}
	for tag, image := range images {
		ref, err := name.NewTag(repository + "/" + tag)
		check(t, err)
		refs[ref] = image
	}
	check(t, tarball.MultiRefWriteToFile(path, refs))
}

// tiny is an image of the tiny service that answers with its tag.
func tiny(t testing.TB, tag string) v1.Image {
	t.Helper()
	program, err := os.ReadFile(tinyProgram(t))
	check(t, err)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"bin", "etc", "tmp", "run", "proc", "sys", "dev"} {
		check(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
	}
	for path, content := range map[string]string{
		"etc/passwd":  "root:x:0:0::/:/bin/sh\n",
		"etc/group":   "root:x:0:\n",
		"etc/version": tag + "\n",
		"bin/tiny":    string(program),
	} {
		check(t, w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(content))}))
		_, err := io.WriteString(w, content)
		check(t, err)
	}
	check(t, w.Close())
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	check(t, err)
	image, err := mutate.AppendLayers(empty.Image, l)
	check(t, err)
	config, err := image.ConfigFile()
	check(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Env: []string{"PATH=/bin"}, Entrypoint: []string{"/bin/tiny"}}
	image, err = mutate.ConfigFile(image, config)
	check(t, err)
	return image
}

func tinyProgram(t testing.TB) string {
	t.Helper()
	path := t.TempDir() + "/tiny"
	run(t, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../tiny")
	return path
}

// nodeImages are images that make built, by NAME:TAG.
func nodeImages(t testing.TB, tags ...string) map[string]v1.Image {
	t.Helper()
	registry := machine.NewRegistry(t, machine.RegistryDir(built(t, "registry")))
	images := map[string]v1.Image{}
	for _, tag := range tags {
		ref, err := name.NewTag(registry.Addr+"/kolla/"+tag, name.Insecure)
		check(t, err)
		image, err := remote.Image(ref)
		check(t, err)
		images[tag] = image
	}
	return images
}
