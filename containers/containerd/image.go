package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

var isID = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Image looks up an image on this host.
func (e *Engine) Image(ctx context.Context, ref string) (containers.Image, error) {
	_, image, err := e.findImage(ctx, ref)
	if err != nil {
		return containers.Image{}, e.fail("looking up image "+ref, err)
	}
	return image, nil
}

// findImage returns the record of an image by tag, digest or id. containerd has one
// record per name; its labels identify the image.
func (e *Engine) findImage(ctx context.Context, ref string) (images.Image, containers.Image, error) {
	record, err := e.findRecord(ctx, ref)
	if err != nil {
		return images.Image{}, containers.Image{}, err
	}
	if record.Labels[idLabel] == "" { // another tool pulled it
		if record, err = e.adopt(ctx, record); err != nil {
			return images.Image{}, containers.Image{}, err
		}
	}
	found, err := e.imageConfig(ctx, record.Labels[idLabel])
	if err != nil {
		return images.Image{}, containers.Image{}, err
	}
	config := found.Config
	size, err := strconv.ParseInt(record.Labels[sizeLabel], 10, 64)
	if err != nil {
		return images.Image{}, containers.Image{}, fmt.Errorf("label %s of image %s: %w; remove the image and pull it again", sizeLabel, record.Name, err)
	}
	return record, containers.Image{
		ID:         record.Labels[idLabel],
		Digest:     digestName(record),
		Size:       size,
		Entrypoint: config.Entrypoint,
		Command:    config.Cmd,
		User:       config.User,
		WorkingDir: config.WorkingDir,
		Env:        config.Env,
		StopSignal: config.StopSignal,
	}, nil
}

func (e *Engine) findRecord(ctx context.Context, ref string) (images.Image, error) {
	store := e.client.ImageService()
	absent := failure.Mark(failure.MissingImage, fmt.Errorf("no such image %s: %w", ref, errdefs.ErrNotFound))
	if isID.MatchString(ref) {
		found, err := store.List(ctx, fmt.Sprintf("labels.%q==%s", idLabel, ref))
		if err == nil && len(found) == 0 {
			err = absent
		}
		if err != nil {
			return images.Image{}, err
		}
		return preferDigest(found), nil
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return images.Image{}, err
	}
	digested, ok := named.(reference.Digested)
	if !ok {
		record, err := store.Get(ctx, reference.TagNameOnly(named).String())
		if errdefs.IsNotFound(err) {
			err = absent
		}
		return record, err
	}
	record, err := store.Get(ctx, reference.TrimNamed(named).String()+"@"+digested.Digest().String())
	if !errdefs.IsNotFound(err) {
		return record, err
	}
	found, err := store.List(ctx, "target.digest=="+digested.Digest().String())
	if err != nil {
		return images.Image{}, err
	}
	for _, f := range found {
		if n, err := reference.ParseNormalizedNamed(f.Name); err == nil && n.Name() == named.Name() {
			return f, nil
		}
	}
	return images.Image{}, absent
}

// preferDigest returns a record with a digest, if one of an image's records has one.
func preferDigest(found []images.Image) images.Image {
	slices.SortFunc(found, func(a, b images.Image) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range found {
		if strings.Contains(f.Name, "@") {
			return f
		}
	}
	return found[0]
}

// digestName returns REPOSITORY@DIGEST for a record; empty if its name is invalid.
func digestName(record images.Image) string {
	named, err := reference.ParseNormalizedNamed(record.Name)
	if err != nil {
		return ""
	}
	return reference.TrimNamed(named).String() + "@" + record.Target.Digest.String()
}

// adopt unpacks an image if necessary, labels its record with id and size, and
// creates a record by digest, which keeps the image when its tag moves.
func (e *Engine) adopt(ctx context.Context, record images.Image) (images.Image, error) {
	manifest, err := images.Manifest(ctx, e.client.ContentStore(), record.Target, platforms.Default())
	if err != nil {
		return images.Image{}, err
	}
	layers, err := e.unpacked(ctx, record)
	if err != nil {
		return images.Image{}, err
	}
	var size int64
	for n := range layers {
		usage, err := e.client.SnapshotService(snapshotter).Usage(ctx, identity.ChainID(layers[:n+1]).String())
		if err != nil {
			return images.Image{}, err
		}
		size += usage.Size
	}
	record.Labels = map[string]string{idLabel: manifest.Config.Digest.String(), sizeLabel: strconv.FormatInt(size, 10)}
	fields := []string{"labels." + idLabel, "labels." + sizeLabel}
	if name := digestName(record); name != "" && name != record.Name {
		other := images.Image{Name: name, Target: record.Target, Labels: record.Labels}
		_, err := e.client.ImageService().Create(ctx, other)
		if errdefs.IsAlreadyExists(err) {
			_, err = e.client.ImageService().Update(ctx, other, fields...)
		}
		if err != nil {
			return images.Image{}, err
		}
	}
	return e.client.ImageService().Update(ctx, record, fields...)
}

// unpacked unpacks an image if necessary and returns the digests of its layers.
func (e *Engine) unpacked(ctx context.Context, record images.Image) ([]digest.Digest, error) {
	image := e.clientImage(record)
	ready, err := image.IsUnpacked(ctx, snapshotter)
	if err == nil && !ready {
		err = image.Unpack(ctx, snapshotter)
	}
	if err != nil {
		return nil, err
	}
	return image.RootFS(ctx)
}

// imageConfig returns the configuration of an image and the digests of its layers. An id is a
// digest of the content, so the result is cached.
func (e *Engine) imageConfig(ctx context.Context, id string) (ocispec.Image, error) {
	if known, ok := e.configs.Load(id); ok {
		return known.(ocispec.Image), nil
	}
	text, err := content.ReadBlob(ctx, e.client.ContentStore(), ocispec.Descriptor{Digest: digest.Digest(id)})
	if err != nil {
		return ocispec.Image{}, err
	}
	var image ocispec.Image
	if err := json.Unmarshal(text, &image); err != nil {
		return ocispec.Image{}, fmt.Errorf("configuration of image %s: %w", id, err)
	}
	e.configs.Store(id, image)
	return image, nil
}

// RemoveImage removes an image by id, with all its names.
func (e *Engine) RemoveImage(ctx context.Context, id string) error {
	doing := "removing image " + id
	unlock, err := e.lockAll(ctx)
	if err != nil {
		return e.fail(doing, err)
	}
	defer unlock()
	users, err := e.client.ContainerService().List(ctx, fmt.Sprintf("labels.%q==%s", imageLabel, id))
	if err != nil {
		return e.fail(doing, err)
	}
	for _, c := range users {
		return fmt.Errorf("%s: container %s uses it; remove the container first", doing, nameOf(c))
	}
	store := e.client.ImageService()
	found, err := store.List(ctx, fmt.Sprintf("labels.%q==%s", idLabel, id))
	if err != nil {
		return e.fail(doing, err)
	}
	for n, f := range found {
		var opts []images.DeleteOpt
		if n == len(found)-1 { // so that the space is free when this returns
			opts = append(opts, images.SynchronousDelete())
		}
		if err := store.Delete(ctx, f.Name, opts...); err != nil && !errdefs.IsNotFound(err) {
			return e.fail(doing, err)
		}
	}
	return nil
}

var errNoImageName = errors.New("an id does not name a registry; give the image's name")
