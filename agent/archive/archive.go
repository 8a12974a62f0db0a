// Package archive reads image archives: it lists their images without an engine,
// and decompresses them for an engine. An archive is a tar file with the output of
// `docker save` or with an OCI image layout, optionally compressed with gzip or
// zstd.
package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/klauspost/compress/zstd"

	"github.com/kollet/kollet/agent/wary"
)

// Image is one image in an archive.
type Image struct {
	Name   string // in full, such as docker.io/library/debian:12; unchanged if it is not a valid name
	ID     string // sha256:… of its configuration; may be empty
	Digest string // sha256:… of its manifest; may be empty
}

// The files of an archive that name its images.
const (
	dockerIndex = "manifest.json" // moby: image/spec/v1.2.md
	ociIndex    = "index.json"    // opencontainers/image-spec: image-layout.md
)

// nameKeys are the annotations with an image's name in a layout. containerd writes
// the first, with the full name.
var nameKeys = []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"}

// maxIndex bounds the size of an index, which is read into memory.
const maxIndex = 8 << 20

// List returns the images in an archive. It reads the whole archive and compares all
// checksums, so that a truncated or damaged one is detected before an engine gets it:
// Docker 29 loads a layer that is not the one in the image's configuration.
func List(file string) ([]Image, error) {
	content, err := Open(file)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	images, err := list(tar.NewReader(content))
	if err == nil {
		_, err = io.Copy(io.Discard, content) // padding and checksum
	}
	if err != nil {
		return nil, damaged(file, err)
	}
	return images, nil
}

func damaged(file string, err error) error {
	if errors.Is(err, errNone) || errors.Is(err, errTooMany) || errors.Is(err, errNotFile) {
		return fmt.Errorf("%s: %w", file, err)
	}
	return fmt.Errorf("%s: the archive is damaged or truncated: %w; copy it again", file, err)
}

var errNone = errors.New("not an image archive: it has neither manifest.json nor index.json; create one with docker save, or with skopeo copy to docker-archive")

var errTooMany = fmt.Errorf("not an image archive: it has more than %d files, or %d MiB of names; create one with docker save, or with skopeo copy to docker-archive", maxFiles, maxNames>>20)

func list(content *tar.Reader) ([]Image, error) {
	files := newContents()
	for {
		h, err := content.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = files.add(h, content)
		}
		if err != nil {
			return nil, err
		}
	}
	images, err := files.images()
	if err != nil {
		return nil, err
	}
	return images, files.verify()
}

// images returns the images that the archive's indexes name.
func (c *contents) images() ([]Image, error) {
	var images []Image
	found := false
	for _, name := range []string{ociIndex, dockerIndex} {
		text, ok := c.texts[name]
		if !ok {
			continue
		}
		found = true
		more, err := parsers[name](text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		images = append(images, more...)
	}
	if !found {
		return nil, errNone
	}
	return images, nil
}

var parsers = map[string]func([]byte) ([]Image, error){dockerIndex: docker, ociIndex: oci}

func docker(data []byte) ([]Image, error) {
	var index []struct {
		Config   string
		RepoTags []string
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, err
	}
	var images []Image
	for _, m := range index {
		// HEX.json, or blobs/sha256/HEX.
		id := "sha256:" + strings.TrimSuffix(path.Base(m.Config), ".json")
		if !isDigest(id) {
			id = ""
		}
		for _, name := range m.RepoTags {
			images = append(images, Image{Name: Full(name), ID: id})
		}
		if len(m.RepoTags) == 0 {
			images = append(images, Image{ID: id})
		}
	}
	return images, nil
}

func oci(data []byte) ([]Image, error) {
	var index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
		}
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, err
	}
	var images []Image
	for _, m := range index.Manifests {
		i := Image{}
		if isDigest(m.Digest) {
			i.Digest = m.Digest
		}
		for _, key := range nameKeys {
			if name := m.Annotations[key]; name != "" {
				i.Name = Full(name)
				break
			}
		}
		images = append(images, i)
	}
	return images, nil
}

func isDigest(text string) bool {
	hex, ok := strings.CutPrefix(text, "sha256:")
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

// Full completes an image's name as engines do. It returns an invalid name unchanged.
func Full(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	return reference.TagNameOnly(named).String()
}

// Has reports whether one of the images has the reference's name or digest, or the
// ID.
func Has(images []Image, ref, id string) bool {
	full := Full(ref)
	_, digest, _ := strings.Cut(full, "@")
	return slices.ContainsFunc(images, func(i Image) bool {
		return i.Name != "" && i.Name == full || digest != "" && i.Digest == digest || id != "" && i.ID == id
	})
}

// Content is the decompressed tar of an archive.
type Content struct {
	Size int64 // of the file

	file    *os.File
	content io.Reader
	close   func()
	err     error
}

// How compressed files begin (RFC 1952, RFC 8878).
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

	// Docker knows these too; nothing writes them today.
	xzMagic    = []byte{0xfd, '7', 'z', 'X'}
	bzip2Magic = []byte("BZh")
)

// maxWindow is the window of zstd --ultra -22. A file may ask for more memory than
// the host has.
const maxWindow = 128 << 20

// Open opens an archive.
func Open(file string) (*Content, error) {
	f, err := wary.OpenFile(file)
	if wary.Unfit(err) {
		return nil, damaged(file, errNotFile)
	}
	if err != nil {
		return nil, err
	}
	c := &Content{file: f, close: func() {}}
	if err := c.begin(); err != nil {
		f.Close()
		return nil, damaged(file, err)
	}
	return c, nil
}

func (c *Content) begin() error {
	info, err := c.file.Stat()
	if err != nil {
		return err
	}
	c.Size = info.Size()
	in := bufio.NewReaderSize(c.file, 64<<10)
	magic, _ := in.Peek(4) // reading a shorter file fails later
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(in)
		c.content = z
		return err
	case bytes.HasPrefix(magic, zstdMagic):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err == nil {
			c.content, c.close = z, z.Close
		}
		return err
	}
	c.content = c.file
	_, err = c.file.Seek(0, io.SeekStart)
	return err
}

var errNotFile = errors.New("it is not a regular file; name files, such as DIR/*.tar")

// Read reads the tar.
func (c *Content) Read(p []byte) (int, error) {
	n, err := c.content.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// Done returns how many bytes of the file were read.
func (c *Content) Done() int64 {
	at, err := c.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	return at
}

// Err returns the error of the last failed read, which an engine's client may have
// replaced by its own.
func (c *Content) Err() error { return c.err }

// Close closes the archive.
func (c *Content) Close() error {
	c.close()
	return c.file.Close()
}
