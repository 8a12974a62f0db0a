package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"

	"github.com/kollet/kollet/containers"
)

// Pull fetches an image from its registry.
func (e *Engine) Pull(ctx context.Context, ref string, progress func(containers.Progress)) (containers.Image, error) {
	doing := "pulling image " + ref
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return containers.Image{}, fmt.Errorf("%s: %w; expected [REGISTRY/]NAME[:TAG][@DIGEST]", doing, err)
	}
	if strings.HasPrefix(ref, "sha256:") {
		return containers.Image{}, fmt.Errorf("%s: an id does not name a registry; give the image's name", doing)
	}
	named = reference.TagNameOnly(named)
	auth, err := credentials(named)
	if err != nil {
		return containers.Image{}, fmt.Errorf("%s: %w", doing, err)
	}
	digest, err := e.fetch(ctx, named, auth, progress)
	if err != nil {
		return containers.Image{}, e.errors.PullError(ctx, doing, reference.Domain(named), err)
	}
	if digest != "" { // the tag may move before it is looked up
		ref = reference.TrimNamed(named).String() + "@" + digest
	}
	found, err := e.client.ImageInspect(ctx, ref)
	if err != nil {
		return containers.Image{}, e.fail(doing, err)
	}
	if _, pinned := named.(reference.Digested); !pinned {
		if err := e.keepDigest(ctx, found, ref, auth); err != nil {
			return containers.Image{}, e.errors.PullError(ctx, doing, reference.Domain(named), err)
		}
	}
	return imageOf(found, ref), nil
}

// fetch pulls an image and returns its digest.
func (e *Engine) fetch(ctx context.Context, named reference.Named, auth string, progress func(containers.Progress)) (digest string, err error) {
	stream, err := e.client.ImagePull(ctx, named.String(), image.PullOptions{RegistryAuth: auth})
	if err != nil {
		return "", err
	}
	defer stream.Close()
	return e.dialect.follow(ctx, stream, progress)
}

// keepDigest has the engine find an image by its digest, ref, when the tag by which it was
// pulled has moved. In containerd's image store, which is the default of Docker 29, each name
// that was pulled is a record of its own, and a tag that moves takes the only one along
// (daemon/containerd/image_pull.go). Everything but the manifest is there already.
func (e *Engine) keepDigest(ctx context.Context, found image.InspectResponse, ref, auth string) error {
	if found.Descriptor == nil { // the engine has a store of its own
		return nil
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return err
	}
	_, err = e.fetch(ctx, named, auth, nil)
	return err
}

// message is one line of the engine's response to a pull.
type message struct {
	Status   string `json:"status"`
	ID       string `json:"id"` // of a layer, or the tag
	Progress struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	Error string `json:"error"`
}

// follow reads the response to a pull until it ends and returns the digest in it.
func (d Dialect) follow(ctx context.Context, stream io.Reader, progress func(containers.Progress)) (digest string, err error) {
	decoder := json.NewDecoder(stream)
	layers := fetched{}
	var last containers.Progress
	tell := func() {
		if now := layers.sum(); progress != nil && now != last {
			progress(now)
			last = now
		}
	}
	for image := ""; ; {
		var m message
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			if d.OnlyDownloads {
				delete(layers, image)
				tell()
			}
			return digest, nil
		} else if ctx.Err() != nil {
			return "", ctx.Err()
		} else if err != nil {
			return "", err
		}
		if m.Error != "" {
			return "", errors.New(m.Error)
		}
		if found, ok := strings.CutPrefix(m.Status, "Digest: "); ok {
			digest = found
		}
		image = m.ID
		if d.OnlyDownloads && m.Status == "Download complete" {
			m.Status = "Pull complete"
		}
		layers.add(m)
		tell()
	}
}

// fetched is the progress of each layer, by id.
type fetched map[string]*layer

type layer struct {
	done, total int64
	begun       bool // so that its size is known
	complete    bool
}

func (f fetched) add(m message) {
	switch m.Status {
	case "Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete", "Extracting", "Pull complete", "Already exists":
	default:
		return // about the image as a whole
	}
	l := f[m.ID]
	if l == nil {
		l = &layer{}
		f[m.ID] = l
	}
	l.begun = l.begun || m.Status != "Pulling fs layer" && m.Status != "Waiting"
	switch m.Status {
	case "Downloading":
		l.done = max(m.Progress.Current, 0)
		l.total = max(m.Progress.Total, l.done) // a registry need not send the size of a layer
	case "Verifying Checksum", "Download complete", "Extracting":
		l.done = l.total
	case "Pull complete", "Already exists":
		l.done, l.complete = l.total, true
	}
}

// sum has no sizes before the last layer begins: the engine fetches three at a time, and
// a small one that is complete would be 100 % of what is known.
func (f fetched) sum() containers.Progress {
	var p containers.Progress
	complete, known := 0, true
	for _, l := range f {
		p.Done += l.done
		p.Total += l.total
		known = known && l.begun
		if l.complete {
			complete++
		}
	}
	if !known {
		p.Done, p.Total = 0, 0
	}
	p.Status = fmt.Sprintf("%d of %d layers", complete, len(f))
	return p
}
