package bench

import (
	"archive/tar"
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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

// benched is what the tiny service's program is called here: the kernel's tracer
// sees the whole machine, where other tests may run tiny services too.
const benched = "benched"

// tinyProgram builds the tiny service and returns its path.
func tinyProgram(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), benched)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../tiny")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return path
}

// pushTiny puts an image of the tiny service into a registry, as bench/tiny:TAG.
// Images with different tags differ in content. ballast adds so many bytes that
// cannot be compressed.
func pushTiny(b *testing.B, r *machine.Registry, program, tag string, ballast int) {
	b.Helper()
	code, err := os.ReadFile(program)
	check(b, err)
	path := filepath.Join(b.TempDir(), tag+".tar")
	f, err := os.Create(path)
	check(b, err)
	w := tar.NewWriter(f)
	add := func(path string, size int, content io.Reader) {
		check(b, w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(size)}))
		_, err := io.CopyN(w, content, int64(size))
		check(b, err)
	}
	add("etc/version", len(tag), bytes.NewReader([]byte(tag)))
	add("bin/"+benched, len(code), bytes.NewReader(code))
	if ballast > 0 {
		var seed [32]byte
		copy(seed[:], tag)
		add("ballast", ballast, rand.NewChaCha8(seed))
	}
	check(b, w.Close())
	check(b, f.Close())
	layer, err := tarball.LayerFromFile(path)
	check(b, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	check(b, err)
	config, err := image.ConfigFile()
	check(b, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{"/bin/" + benched}}
	image, err = mutate.ConfigFile(image, config)
	check(b, err)
	ref, err := name.NewTag(imageOf(r, tag), name.Insecure)
	check(b, err)
	check(b, remote.Write(ref, image))
}

const repository = "bench/tiny"

// imageOf is the reference of an image that pushTiny pushed.
func imageOf(r *machine.Registry, tag string) string { return r.Addr + "/" + repository + ":" + tag }

// tinyRegistry has both versions of the tiny service, made of the program that
// is returned.
func tinyRegistry(b *testing.B) (r *machine.Registry, program string) {
	b.Helper()
	r, program = machine.NewRegistry(b), tinyProgram(b)
	for _, tag := range []string{oldTag, newTag} {
		pushTiny(b, r, program, tag, 0)
	}
	return r, program
}
