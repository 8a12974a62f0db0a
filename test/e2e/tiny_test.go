package e2e

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/kollet/kollet/test/machine"
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

// pushTiny puts an image of the tiny service into a registry, as REPOSITORY:TAG.
// Images with different tags differ in content. edit may change how the image
// starts.
func pushTiny(t testing.TB, r *machine.Registry, repository, tag string, edit ...func(*v1.Config)) {
	t.Helper()
	program, err := tinyProgram()
	check(t, err)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"bin", "etc", "tmp", "run", "proc", "sys", "dev"} {
		check(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
	}
	for path, content := range map[string]string{
		"etc/passwd":  "root:x:0:0::/:/bin/sh\nnova:x:42436:42436::/tmp:/bin/sh\n",
		"etc/group":   "root:x:0:\nnova:x:42436:\n",
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
	for _, e := range edit {
		e(&config.Config)
	}
	image, err = mutate.ConfigFile(image, config)
	check(t, err)
	ref, err := name.NewTag(r.Addr+"/"+repository+":"+tag, name.Insecure)
	check(t, err)
	check(t, remote.Write(ref, image))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
