package e2e

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/tiny/image"
)

// pushTiny pushes an image of the tiny service to a registry as REPOSITORY:TAG. edit
// changes the image's configuration.
func pushTiny(t testing.TB, r *machine.Registry, repository, tag string, edit ...func(*v1.Config)) {
	t.Helper()
	i := image.Image{Tag: tag}
	if len(edit) > 0 {
		i.Config = edit[0]
	}
	i.Push(t, r.Addr, repository)
}
