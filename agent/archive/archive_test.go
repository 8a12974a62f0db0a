package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/kollet/kollet/agent/archive"
)

const (
	hexA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	hexB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// entry is a file in a tar.
type entry struct{ name, content string }

func packed(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		check(t, w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.content))}))
		_, err := io.WriteString(w, e.content)
		check(t, err)
	}
	check(t, w.Close())
	return out.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	check(t, err)
	check(t, w.Close())
	return out.Bytes()
}

func zstded(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	check(t, err)
	return w.EncodeAll(data, nil)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "images")
	check(t, os.WriteFile(path, data, 0o600))
	return path
}

var (
	layer = entry{hexB + "/layer.tar", strings.Repeat("layer ", 20_000)}
	saved = entry{"manifest.json", `[{"Config":"` + hexA + `.json","RepoTags":["nova:1","reg:5000/kolla/libvirt:2"]},{"Config":"odd","RepoTags":null}]`}
	oci   = entry{"./index.json", `{"manifests":[{"digest":"sha256:` + hexB + `","annotations":{"io.containerd.image.name":"docker.io/library/nova:1","org.opencontainers.image.ref.name":"1"}},{"digest":"x","annotations":{"org.opencontainers.image.ref.name":"reg/a"}},{}]}`}

	savedImages = []archive.Image{{Name: "docker.io/library/nova:1", ID: "sha256:" + hexA}, {Name: "reg:5000/kolla/libvirt:2", ID: "sha256:" + hexA}, {}}
	ociImages   = []archive.Image{{Name: "docker.io/library/nova:1", Digest: "sha256:" + hexB}, {Name: "docker.io/reg/a:latest"}, {}}
)

func TestList(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want []archive.Image
		err  string
	}{
		"docker save":          {packed(t, layer, saved), savedImages, ""},
		"OCI layout":           {packed(t, oci, layer), ociImages, ""},
		"both":                 {packed(t, oci, layer, saved), slices.Concat(ociImages, savedImages), ""},
		"gzip":                 {gzipped(t, packed(t, layer, saved)), savedImages, ""},
		"zstd":                 {zstded(t, packed(t, layer, saved)), savedImages, ""},
		"empty":                {nil, nil, "not an image archive"},
		"text":                 {[]byte(strings.Repeat("hello\n", 200)), nil, "damaged or truncated: archive/tar: invalid tar header"},
		"another tar":          {packed(t, layer), nil, "not an image archive: it has neither"},
		"cut in a layer":       {packed(t, saved, layer)[:4000], nil, "damaged or truncated: unexpected EOF"},
		"cut before its index": {packed(t, layer, saved)[:60_000], nil, "damaged or truncated: unexpected EOF"},
		"gzip truncated":       {half(gzipped(t, packed(t, saved, layer))), nil, "damaged or truncated: unexpected EOF"},
		"gzip without its end": {short(gzipped(t, packed(t, saved, layer)), 4), nil, "damaged or truncated: unexpected EOF"},
		"gzip with a flip":     {flip(gzipped(t, packed(t, saved, layer))), nil, "damaged or truncated: "},
		"zstd truncated":       {half(zstded(t, packed(t, saved, layer))), nil, "damaged or truncated: unexpected EOF"},
		"zstd with a flip":     {flip(zstded(t, packed(t, saved, layer))), nil, "damaged or truncated: "},
		"index is no JSON":     {packed(t, entry{"manifest.json", "[{"}), nil, "manifest.json: unexpected end of JSON input"},
		"index is another":     {packed(t, entry{"index.json", "[]"}), nil, "index.json: json: cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.data)
			got, err := archive.List(path)
			if c.err == "" && (err != nil || !slices.Equal(got, c.want)) {
				t.Errorf("got %+v, %v", got, err)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.HasPrefix(err.Error(), path+": ")) {
				t.Errorf("got %v, want %s", err, c.err)
			}
		})
	}
	if _, err := archive.List(t.TempDir()); err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := archive.List("/no/such/archive"); !os.IsNotExist(err) {
		t.Errorf("a missing one: %v", err)
	}
}

func half(data []byte) []byte         { return data[:len(data)/2] }
func short(data []byte, n int) []byte { return data[:len(data)-n] }
func flip(data []byte) []byte         { data[len(data)/2] ^= 0x10; return data }

func TestContent(t *testing.T) {
	tarball := packed(t, layer, saved)
	for name, data := range map[string][]byte{"as it is": tarball, "gzip": gzipped(t, tarball), "zstd": zstded(t, tarball)} {
		t.Run(name, func(t *testing.T) {
			c, err := archive.Open(write(t, data))
			check(t, err)
			defer c.Close()
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, tarball) {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(tarball))
			}
			if c.Size != int64(len(data)) || c.Done() != c.Size || c.Err() != nil {
				t.Errorf("read %d of %d, %v", c.Done(), c.Size, c.Err())
			}
		})
	}
}

func TestHas(t *testing.T) {
	images := slices.Concat(savedImages, ociImages, []archive.Image{{Name: "26.2.2 beta"}})
	for _, c := range []struct {
		ref, id string
		want    bool
	}{
		{"nova:1", "", true},
		{"docker.io/library/nova:1", "", true},
		{"nova:2", "", false},
		{"nova", "", false},
		{"reg:5000/kolla/libvirt:2", "", true},
		{"reg/a", "", true},
		{"anything@sha256:" + hexB, "", true},
		{"anything@sha256:" + hexA, "", false},
		{"nova:2", "sha256:" + hexA, true},
		{"nova:2", "sha256:" + hexB, false},
		{"", "", false},
	} {
		if got := archive.Has(images, c.ref, c.id); got != c.want {
			t.Errorf("%q or %q: %v", c.ref, c.id, got)
		}
	}
}

// FuzzList checks that List does not panic or hang, and that names are complete and
// IDs are digests.
func FuzzList(f *testing.F) {
	for _, seed := range [][]byte{packed(f, entry{"a/layer.tar", "x"}, saved), packed(f, oci), packed(f), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		images, err := archive.ListTar(data)
		if err != nil {
			return
		}
		for _, i := range images {
			for _, digest := range []string{i.ID, i.Digest} {
				if digest != "" && len(digest) != len("sha256:")+64 {
					t.Errorf("digest %q", digest)
				}
			}
			if archive.Full(i.Name) != i.Name {
				t.Errorf("name %q is not complete", i.Name)
			}
		}
	})
}
