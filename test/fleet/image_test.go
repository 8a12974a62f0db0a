package fleet

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var tinyProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "tiny")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tiny")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../tiny")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// push puts an image of the tiny service into the registry, as test/tiny:TAG.
func (s *site) push(tag string) {
	t := s.t
	t.Helper()
	program, err := tinyProgram()
	check(t, err)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for path, content := range map[string]string{"etc/version": tag + "\n", "bin/tiny": string(program)} {
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
	config.Config = v1.Config{Entrypoint: []string{"/bin/tiny"}}
	image, err = mutate.ConfigFile(image, config)
	check(t, err)
	ref, err := name.NewTag(s.registry.Addr+"/test/tiny:"+tag, name.Insecure)
	check(t, err)
	check(t, remote.Write(ref, image))
}
