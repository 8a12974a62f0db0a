package computenode

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// variant pushes an image that is a service's with one more layer, of programs and other files.
func (c *compute) variant(service, tag string, programs map[string]string) {
	c.T.Helper()
	ref := func(tag string) name.Tag {
		ref, err := name.NewTag(c.Registry.Addr+"/kolla/"+service+":"+tag, name.Insecure)
		check(c.T, err)
		return ref
	}
	image, err := remote.Image(ref(oldVersion))
	check(c.T, err)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, path := range slices.Sorted(maps.Keys(programs)) {
		check(c.T, w.WriteHeader(&tar.Header{Name: path[1:], Mode: 0o755, Size: int64(len(programs[path]))}))
		_, err := io.WriteString(w, programs[path])
		check(c.T, err)
	}
	check(c.T, w.Close())
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	check(c.T, err)
	image, err = mutate.AppendLayers(image, l)
	check(c.T, err)
	check(c.T, remote.Write(ref(tag), image))
}

// tag returns the version of a service's image.
func (c *compute) tag(service string) string {
	image := c.Service(service).Image
	return image[strings.LastIndex(image, ":")+1:]
}

// original returns a program of the libvirt that runs.
func (c *compute) original(path string) string {
	c.T.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/root%s", c.Service("nova-libvirt").PID, path))
	check(c.T, err)
	return string(data)
}
