package conformance

import (
	"archive/tar"
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/kollet/kollet/containers"
)

// busybox is the static program of Debian's package busybox-static.
const busybox = "/bin/busybox"

// fromImage is the configuration of the base image.
var fromImage = v1.Config{
	Env:        []string{"PATH=/bin", "FROM_IMAGE=yes", "BOTH=the image"},
	Labels:     map[string]string{"from-image": "yes", "both": "the image"},
	Entrypoint: []string{"/bin/sh"},
	Cmd:        []string{"-c", "echo command of the image"},
	WorkingDir: "/work",
	StopSignal: "SIGTERM",
	Volumes:    map[string]struct{}{"/declared": {}},
}

// baseImage returns an image with busybox, two users and a few directories. Images
// with different words have different content.
func baseImage(t *testing.T, word string) v1.Image {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(h tar.Header, content string) {
		h.Size = int64(len(content))
		h.Format = tar.FormatPAX
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, content)
		must(t, err)
	}
	for _, dir := range []string{"bin", "work", "proc", "sys", "dev", "declared"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, "")
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, "")
	add(tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, "")
	add(tar.Header{Name: "etc/passwd", Mode: 0o644}, "root:x:0:0::/:/bin/sh\nnova:x:42436:42436::/work:/bin/sh\n")
	add(tar.Header{Name: "etc/group", Mode: 0o644}, "root:x:0:\nnova:x:42436:\n")
	add(tar.Header{Name: "etc/word", Mode: 0o644}, word+"\n")
	add(tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o750, Uid: 42436, Gid: 42436}, "")
	add(tar.Header{Name: "data/shipped", Mode: 0o640, Uid: 42436, Gid: 42436}, "with the image\n")
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatalf("%v: install the package busybox-static", err)
	}
	add(tar.Header{Name: "bin/busybox", Mode: 0o755}, string(program))
	applets, err := exec.Command(busybox, "--list").Output()
	must(t, err)
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}, "")
		}
	}
	must(t, w.Close())
	image := withLayer(t, empty.Image, out.Bytes())
	image, err = mutate.ConfigFile(image, configFile(t, image))
	must(t, err)
	return image
}

func configFile(t *testing.T, image v1.Image) *v1.ConfigFile {
	t.Helper()
	file, err := image.ConfigFile()
	must(t, err)
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Created = v1.Time{Time: time.Unix(1700000000, 0)}
	file.Config = fromImage
	return file
}

func withLayer(t *testing.T, image v1.Image, content []byte) v1.Image {
	t.Helper()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	must(t, err)
	image, err = mutate.AppendLayers(image, layer)
	must(t, err)
	return image
}

// withNoise adds a layer that cannot be compressed.
func withNoise(t *testing.T, image v1.Image, size int) v1.Image {
	t.Helper()
	noise := make([]byte, size)
	if _, err := rand.NewChaCha8([32]byte{byte(counter.Add(1))}).Read(noise); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	must(t, w.WriteHeader(&tar.Header{Name: unique("noise"), Mode: 0o644, Size: int64(size)}))
	_, err := w.Write(noise)
	must(t, err)
	must(t, w.Close())
	return withLayer(t, image, out.Bytes())
}

// push pushes an image to the registry and returns its name.
func (s *suite) push(t *testing.T, path string, image v1.Image) string {
	t.Helper()
	ref, err := name.NewTag(s.Registry.Addr+"/"+path, name.Insecure)
	must(t, err)
	must(t, remote.Write(ref, image, remote.WithContext(t.Context())))
	return ref.String()
}

// Push pushes the suite's base image to a registry, for tests of one engine, and
// returns its name. The image has busybox and declares the volume /declared.
func Push(t *testing.T, registry string) string {
	t.Helper()
	s := &suite{Subject: Subject{Registry: Registry{Addr: registry}}}
	return s.push(t, "conformance/base:1", baseImage(t, "one"))
}

func (s *suite) pushAndPull(t *testing.T, path string, image v1.Image) containers.Image {
	t.Helper()
	pulled, err := s.Engine.Pull(t.Context(), s.push(t, path, image), nil)
	must(t, err)
	return pulled
}
