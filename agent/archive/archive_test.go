package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/archive"
)

const (
	hexA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	hexB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// entry is a file in a tar, or a link: -> and its target.
type entry struct{ name, content string }

func packed(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if target, ok := strings.CutPrefix(e.content, "-> "); ok {
			check(t, w.WriteHeader(&tar.Header{Name: e.name, Typeflag: tar.TypeSymlink, Linkname: target}))
			continue
		}
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
	fifo := filepath.Join(t.TempDir(), "fifo.tar")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.List(fifo); err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
		t.Error(err)
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

func sha(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

// image returns the files of an image with layers in an archive's format: the names of the
// layers' files, and what is in them.
func image(t testing.TB, format string, ids []string, layers ...string) []entry {
	t.Helper()
	config := `{"rootfs":{"type":"layers","diff_ids":[]}}`
	if len(ids) > 0 {
		config = fmt.Sprintf(`{"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}`, strings.Join(ids, `","sha256:`))
	}
	blob := func(content string) entry { return entry{"blobs/sha256/" + sha(content), content} }
	var all []entry
	var names, descriptors []string
	for i, l := range layers {
		e := blob(l)
		if format == "saved" {
			e.name = fmt.Sprintf("%d/layer.tar", i)
		}
		all = append(all, e)
		names = append(names, e.name)
		descriptors = append(descriptors, fmt.Sprintf(`{"digest":"sha256:%s"}`, sha(l)))
	}
	switch format {
	case "saved":
		return append(all, entry{sha(config) + ".json", config},
			entry{"manifest.json", fmt.Sprintf(`[{"Config":"%s.json","RepoTags":["a:1"],"Layers":["%s"]}]`, sha(config), strings.Join(names, `","`))})
	case "layout":
		manifest := fmt.Sprintf(`{"config":{"digest":"sha256:%s"},"layers":[%s]}`, sha(config), strings.Join(descriptors, ","))
		index := fmt.Sprintf(`{"manifests":[{"digest":"sha256:%s"}]}`, sha(manifest))
		return append(all, blob(config), blob(manifest), blob(index), entry{"index.json", fmt.Sprintf(`{"manifests":[{"digest":"sha256:%s"}]}`, sha(index))})
	}
	t.Fatalf("no format %s", format)
	return nil
}

// nested is an index with many references to the file a.
func nested(n int) string {
	return `{"manifests":[` + strings.Repeat(`{"digest":"a"},`, n) + `{"digest":"a"}]}`
}

// Any tar file may have an archive's name, such as a backup.
func TestTooManyFiles(t *testing.T) {
	for name, c := range map[string]struct{ files, length int }{
		"files": {60_000, 1},
		"names": {20, 900_000},
	} {
		var all bytes.Buffer
		w := tar.NewWriter(&all)
		for range c.files {
			check(t, w.WriteHeader(&tar.Header{Name: strings.Repeat("n", c.length), Mode: 0o600}))
		}
		check(t, w.Close())
		_, err := archive.List(write(t, all.Bytes()))
		if err == nil || !strings.Contains(err.Error(), "not an image archive: it has more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDamagedLayers(t *testing.T) {
	a, b := strings.Repeat("layer a ", 1000), strings.Repeat("layer b ", 1000)
	both := []string{sha(a), sha(b)}
	compressed, zipped := string(gzipped(t, []byte(b))), string(zstded(t, []byte(b)))
	broken := string(flip([]byte(compressed)))
	replaced := func(all []entry, n int, content string) []entry {
		all[n].content = content
		return all
	}
	for name, c := range map[string]struct {
		files []entry
		err   string // none: it is whole
	}{
		"saved":                         {image(t, "saved", both, a, b), ""},
		"saved, compressed":             {image(t, "saved", both, a, compressed), ""},
		"saved, zstd":                   {image(t, "saved", both, a, zipped), ""},
		"saved, another layer":          {image(t, "saved", both, a, a), "layer 1/layer.tar is not the one in its image's configuration"},
		"saved, compressed and damaged": {image(t, "saved", both, a, broken), "layer 1/layer.tar is not the one"},
		"saved, a layer less":           {image(t, "saved", both, a), "has 1 layers, and its configuration says 2"},
		"saved, one that the engine has": {slices.DeleteFunc(image(t, "saved", both, a, b),
			func(e entry) bool { return e.name == "1/layer.tar" }), ""},
		"layout":                          {image(t, "layout", both, a, b), ""},
		"layout, compressed":              {image(t, "layout", both, a, compressed), ""},
		"layout, another layer":           {image(t, "layout", both, a, a), "is not the one in its image's configuration"},
		"layout, a damaged layer":         {replaced(image(t, "layout", both, a, b), 1, a), "blobs/sha256/" + sha(b) + " is damaged: its checksum is sha256:" + sha(a)},
		"layout, a damaged manifest":      {replaced(image(t, "layout", both, a, b), 3, "{}"), " is damaged: its checksum is sha256:" + sha("{}")},
		"layout, an artifact":             {image(t, "layout", nil, a), ""},
		"an index that contains itself":   {[]entry{{"index.json", `{"manifests":[{"digest":"../index.json"}]}`}}, ""},
		"indexes that contain each other": {append([]entry{{"index.json", nested(200)}}, entry{"blobs/a", nested(200)}), ""},
		"saved, xz":                       {image(t, "saved", both, a, "\xfd7zXZ\x00 and more"), ""},
		"saved, a link that is replaced":  {append([]entry{{"1/layer.tar", "-> ../0/layer.tar"}}, image(t, "saved", both, a, a)...), "layer 1/layer.tar is not the one"},
		"a link in a circle":              {append(image(t, "saved", both, a), entry{"1/layer.tar", "-> layer.tar"}), "has 1 layers"},
		"saved, a link to another layer":  {append(image(t, "saved", []string{sha(a), sha(a)}, a, ""), entry{"1/layer.tar", "-> ../0/layer.tar"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, packed(t, c.files...))
			_, err := archive.List(path)
			if c.err == "" && err != nil {
				t.Errorf("got %v", err)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.HasSuffix(err.Error(), "; copy it again")) {
				t.Errorf("got %v, want %s", err, c.err)
			}
		})
	}
}
