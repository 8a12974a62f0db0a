// Package image creates container images of the tiny service for tests.
package image

import (
	"archive/tar"
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image describes an image of the tiny service. Images with different tags differ in
// content, and the service answers with its tag.
type Image struct {
	Tag     string
	Program string            // name of the program in /bin; tiny if empty
	Links   map[string]string // symbolic links: path without the first slash, target
	Files   map[string]File   // more files: path without the first slash
	Ballast int               // size of additional data that cannot be compressed, in bytes
	Config  func(*v1.Config)  // changes the image's configuration
}

// File is a file that an image has beside the tiny service.
type File struct {
	Content []byte
	SetUID  bool // those who run it become root
}

// Program returns the tiny service's program, which is built once.
func Program(t testing.TB) []byte {
	t.Helper()
	program, err := build()
	check(t, err)
	return program
}

// ProgramVar names a file with the tiny service's program, for machines that cannot build
// it.
const ProgramVar = "KOLLET_TINY"

var build = sync.OnceValues(func() ([]byte, error) {
	if path := os.Getenv(ProgramVar); path != "" {
		return os.ReadFile(path)
	}
	dir, err := os.MkdirTemp("", "tiny")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tiny")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/kollet/kollet/test/tiny")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// Make creates the image.
func (i Image) Make(t testing.TB) v1.Image {
	t.Helper()
	program := "/bin/tiny"
	if i.Program != "" {
		program = "/bin/" + i.Program
	}
	image, err := mutate.AppendLayers(empty.Image, i.layer(t, program))
	check(t, err)
	config, err := image.ConfigFile()
	check(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Env: []string{"PATH=/bin"}, Entrypoint: []string{program}}
	if i.Config != nil {
		i.Config(&config.Config)
	}
	image, err = mutate.ConfigFile(image, config)
	check(t, err)
	return image
}

func (i Image) layer(t testing.TB, program string) v1.Layer {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"bin", "etc", "tmp", "run", "proc", "sys", "dev"} {
		check(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
	}
	files := map[string][]byte{
		"etc/passwd":  []byte("root:x:0:0::/:/bin/sh\nnova:x:42436:42436::/tmp:/bin/sh\n"),
		"etc/group":   []byte("root:x:0:\nnova:x:42436:\n"),
		"etc/version": []byte(i.Tag + "\n"),
		program[1:]:   Program(t),
	}
	if i.Ballast > 0 {
		var seed [32]byte
		copy(seed[:], i.Tag)
		files["ballast"] = make([]byte, i.Ballast)
		_, err := rand.NewChaCha8(seed).Read(files["ballast"])
		check(t, err)
	}
	for path, file := range i.Files {
		files[path] = file.Content
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		mode := int64(0o755)
		if i.Files[path].SetUID {
			mode |= 0o4000
		}
		check(t, w.WriteHeader(&tar.Header{Name: path, Mode: mode, Size: int64(len(files[path]))}))
		_, err := w.Write(files[path])
		check(t, err)
	}
	for _, path := range slices.Sorted(maps.Keys(i.Links)) {
		check(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: i.Links[path]}))
	}
	check(t, w.Close())
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	check(t, err)
	return l
}

// Push pushes the image to a registry, as ADDRESS/REPOSITORY:TAG.
func (i Image) Push(t testing.TB, address, repository string) {
	t.Helper()
	ref, err := name.NewTag(address+"/"+repository+":"+i.Tag, name.Insecure)
	check(t, err)
	check(t, remote.Write(ref, i.Make(t)))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
