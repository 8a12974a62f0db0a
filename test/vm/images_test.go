package vm

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/kollet/kollet/test/machine"
)

// repository is the registry and path of the node's images. The node cannot reach it
// and loads its images from an archive.
const repository = "registry.example.com/kolla"

// archive writes images into an image archive, as docker save does.
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

// nodeImages returns images that make images has built, by NAME:TAG.
func nodeImages(t testing.TB, tags ...string) map[string]v1.Image {
	t.Helper()
	return imagesOf(t, "registry", tags...)
}

// imagesOf returns images of a registry in the build directory, by NAME:TAG.
func imagesOf(t testing.TB, dir string, tags ...string) map[string]v1.Image {
	t.Helper()
	registry := machine.NewRegistry(t, machine.RegistryDir(built(t, dir)))
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
