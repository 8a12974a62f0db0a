package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// contents is what one pass over an archive learns about its files, by their cleaned names.
// Libraries that check images read the archive once for each layer, which for a compressed
// one means to decompress all of it each time.
type contents struct {
	sums  map[string]sum
	links map[string]string // of symbolic and hard links, to their targets
	texts map[string][]byte // of JSON files
	kept  int               // bytes of texts
	files int
	named int             // bytes of their names
	seen  map[string]bool // indexes and manifests of a layout that were checked
}

// sum is the checksum of a file, and that of what it is when it is decompressed; both sha256:….
type sum struct{ stored, plain string }

// unread is in place of the second checksum if the file has a compression that this package does
// not know.
const unread = "unread"

// maxTexts bounds the memory for JSON files. Those of a hundred images are smaller.
const maxTexts = 64 << 20

// What an archive may have, which bounds the memory for names and checksums. Archives of a hundred
// images have some thousand files.
const (
	maxFiles = 50_000
	maxNames = 16 << 20 // bytes
)

func newContents() *contents {
	return &contents{sums: map[string]sum{}, links: map[string]string{}, texts: map[string][]byte{}, seen: map[string]bool{}}
}

// add reads a file of the archive.
func (c *contents) add(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	c.files++
	c.named += len(h.Name) + len(h.Linkname)
	if c.files > maxFiles || c.named > maxNames {
		return errTooMany
	}
	delete(c.links, name) // the last file of a name counts
	delete(c.sums, name)
	switch h.Typeflag {
	case tar.TypeSymlink:
		c.links[name] = path.Join(path.Dir(name), h.Linkname) //nolint:gosec // it names a file of the archive, and nothing is written
	case tar.TypeLink:
		c.links[name] = path.Clean(h.Linkname)
	case tar.TypeReg, tar.TypeGNUSparse:
		in := bufio.NewReader(content)
		begins, _ := in.Peek(4) // an error is returned by the next read, too
		_, isIndex := parsers[name]
		if isIndex && h.Size > maxIndex {
			return fmt.Errorf("%s has %d bytes, and %d are the most", name, h.Size, maxIndex)
		}
		var text bytes.Buffer
		var from io.Reader = in
		keep := isIndex || bytes.HasPrefix(begins, []byte("{")) && h.Size <= maxIndex && c.kept+int(h.Size) <= maxTexts
		if keep {
			c.kept += int(h.Size)
			from = io.TeeReader(in, &text)
		}
		s, err := sumOf(from, begins)
		if err != nil {
			return err
		}
		c.sums[name] = s
		if keep {
			c.texts[name] = text.Bytes()
		}
	}
	return nil
}

// sumOf reads a file that begins with some bytes.
func sumOf(content io.Reader, begins []byte) (sum, error) {
	stored := sha256.New()
	read := io.TeeReader(content, stored)
	var plain hash.Hash
	switch {
	case bytes.HasPrefix(begins, gzipMagic):
		plain = sha256.New()
		if z, err := gzip.NewReader(read); err != nil || !copied(plain, z) {
			plain = nil
		}
	case bytes.HasPrefix(begins, zstdMagic):
		plain = sha256.New()
		z, err := zstd.NewReader(read, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil || !copied(plain, z) {
			plain = nil
		}
		if err == nil {
			z.Close()
		}
	case bytes.HasPrefix(begins, xzMagic), bytes.HasPrefix(begins, bzip2Magic):
		_, err := io.Copy(io.Discard, read)
		return sum{stored: digestOf(stored), plain: unread}, err
	default:
		plain = stored
	}
	if _, err := io.Copy(io.Discard, read); err != nil {
		return sum{}, err
	}
	s := sum{stored: digestOf(stored)}
	if plain != nil {
		s.plain = digestOf(plain)
	}
	return s, nil
}

// copied decompresses. What cannot be decompressed only looks as if it were compressed, or
// has another checksum than its image says.
func copied(to io.Writer, from io.Reader) bool {
	_, err := io.Copy(to, from)
	return err == nil
}

func digestOf(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// file returns the name of the file that a name stands for.
func (c *contents) file(name string) string {
	name = path.Clean(name)
	for range 10 { // links may lead in a circle
		target, ok := c.links[name]
		if !ok {
			break
		}
		name = target
	}
	return name
}

// verify compares the files with the checksums that the archive has of them. Files that are
// missing are left to the engine, which may have them.
func (c *contents) verify() error {
	for name, s := range c.sums {
		if hex, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && isDigest("sha256:"+hex) && s.stored != "sha256:"+hex {
			return fmt.Errorf("%s is damaged: its checksum is %s", name, s.stored)
		}
	}
	if err := c.verifySaved(); err != nil {
		return err
	}
	return c.verifyLayout(ociIndex, maxDepth)
}

// verifySaved checks the images of docker save.
func (c *contents) verifySaved() error {
	var saved []struct {
		Config string
		Layers []string
	}
	if text, ok := c.texts[dockerIndex]; !ok || json.Unmarshal(text, &saved) != nil {
		return nil // list says what is wrong with it
	}
	for _, image := range saved {
		if err := c.verifyImage(image.Config, image.Layers); err != nil {
			return err
		}
	}
	return nil
}

// maxDepth bounds how deep the indexes of a layout are nested: an image for several
// platforms has one below index.json.
const maxDepth = 4

// verifyLayout checks the images of an OCI layout below an index or manifest.
func (c *contents) verifyLayout(name string, depth int) error {
	type descriptor struct{ Digest string }
	var node struct {
		Manifests []descriptor
		Config    descriptor
		Layers    []descriptor
	}
	text, ok := c.texts[name]
	if !ok || depth == 0 || c.seen[name] || json.Unmarshal(text, &node) != nil {
		return nil
	}
	c.seen[name] = true
	for _, m := range node.Manifests {
		if err := c.verifyLayout(blob(m.Digest), depth-1); err != nil {
			return err
		}
	}
	var layers []string
	for _, l := range node.Layers {
		layers = append(layers, blob(l.Digest))
	}
	return c.verifyImage(blob(node.Config.Digest), layers)
}

func blob(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

// verifyImage compares layers with the checksums in their image's configuration.
func (c *contents) verifyImage(config string, layers []string) error {
	var image struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	text, ok := c.texts[c.file(config)]
	if !ok || json.Unmarshal(text, &image) != nil {
		return nil
	}
	want := image.RootFS.DiffIDs
	if len(want) == 0 { // no image: an attestation, for example
		return nil
	}
	if len(layers) != len(want) {
		return fmt.Errorf("the image with configuration %s has %d layers, and its configuration says %d", config, len(layers), len(want))
	}
	for i, layer := range layers {
		if s, ok := c.sums[c.file(layer)]; ok && s.plain != want[i] && s.plain != unread {
			return fmt.Errorf("layer %s is not the one in its image's configuration %s", layer, config)
		}
	}
	return nil
}
