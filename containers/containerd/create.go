package containerd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/runtime/restart"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// undoTime bounds the removal of what a failed Create created.
const undoTime = 30 * time.Second

// Create creates a container from spec.
func (e *Engine) Create(ctx context.Context, spec containers.Spec) (string, error) {
	doing := "creating container " + spec.Name
	if err := spec.Check(); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if len(spec.Healthcheck.Test) > 0 {
		return "", fmt.Errorf("%s: engine_healthcheck: %w", doing, containers.ErrNoHealthcheck)
	}
	spec = spec.Canonical()
	unlock, err := e.lockAll(ctx)
	if err != nil {
		return "", e.fail(doing, err)
	}
	defer unlock()
	found, err := e.named(ctx, spec.Name)
	if err == nil {
		err = nameIsFree(found, spec.Name, "")
	}
	if err != nil {
		return "", e.fail(doing, err)
	}
	id, err := newID()
	if err != nil {
		return "", e.fail(doing, err)
	}
	volumes, err := e.create(ctx, id, spec)
	if err == nil {
		err = ctx.Err() // the last request may have succeeded although ctx ended
	}
	if err != nil {
		return "", e.fail(doing, errors.Join(err, e.undo(ctx, id, volumes)))
	}
	return id, nil
}

func newID() (string, error) {
	random := make([]byte, 32) // as long as Docker's
	_, err := rand.Read(random)
	return hex.EncodeToString(random), err
}

// nameIsFree returns an error if another container than one of those found has the name, or has it
// as id.
func nameIsFree(found []ctr.Container, name, id string) error {
	c, err := pick(found, name)
	if err != nil || c.ID == id {
		return nil
	}
	return failure.Mark(failure.NameTaken, fmt.Errorf("the name %s is already in use by container %s", name, c.ID))
}

// create creates the container and what it needs. It returns the volumes that it
// created, even with an error.
func (e *Engine) create(ctx context.Context, id string, spec containers.Spec) (volumes []string, err error) {
	ctx, done, err := e.client.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(time.Hour))
	if err != nil {
		return nil, err
	}
	defer func() { _ = done(context.WithoutCancel(ctx)) }() // else it expires
	record, image, err := e.findImage(ctx, spec.Image)
	if err != nil {
		return nil, err
	}
	rootfs, config, err := e.prepare(ctx, id, record)
	if err != nil {
		return nil, err
	}
	container := ctr.Container{
		ID:          id,
		Image:       record.Name,
		Snapshotter: snapshotter,
		SnapshotKey: id,
		Runtime:     ctr.RuntimeInfo{Name: runtime},
		Labels:      labels(spec, image),
	}
	uri, err := e.newLogURI(id, spec)
	if err != nil {
		return nil, err
	}
	container.Labels[restart.LogURILabel] = uri.String()
	oci, err := e.toOCI(ctx, &container, spec, config)
	if err != nil {
		return nil, err
	}
	if container.Spec, err = typeurl.MarshalAny(oci); err != nil {
		return nil, err
	}
	container.Extensions = created{Spec: spec, OCI: container.Spec.GetValue()}.extension()
	if volumes, err = e.createVolumes(ctx, spec, rootfs); err != nil {
		return volumes, err
	}
	if err := os.MkdirAll(e.dir(id), 0o700); err != nil {
		return volumes, err
	}
	_, err = e.client.ContainerService().Create(ctx, container)
	return volumes, err
}

// prepare creates the file system of a container, and unpacks the image before if that is
// necessary. It also returns the image's configuration.
func (e *Engine) prepare(ctx context.Context, id string, record images.Image) ([]mount.Mount, ocispec.ImageConfig, error) {
	image, err := e.imageConfig(ctx, record.Labels[idLabel])
	if err != nil {
		return nil, image.Config, err
	}
	snapshots := e.client.SnapshotService(snapshotter)
	layers := identity.ChainID(image.RootFS.DiffIDs).String()
	rootfs, err := snapshots.Prepare(ctx, id, layers)
	if errdefs.IsNotFound(err) {
		if _, err = e.unpacked(ctx, record); err == nil {
			rootfs, err = snapshots.Prepare(ctx, id, layers)
		}
	}
	return rootfs, image.Config, err
}

func labels(spec containers.Spec, image containers.Image) map[string]string {
	out := map[string]string{}
	maps.Copy(out, spec.Labels)
	out[nameLabel] = spec.Name
	out[imageLabel] = image.ID
	out[restart.PolicyLabel] = string(spec.Restart)
	out[client.StopSignalLabel] = spec.StopSignal
	if spec.StopSignal == "" {
		out[client.StopSignalLabel] = image.StopSignal
	}
	if out[client.StopSignalLabel] == "" {
		out[client.StopSignalLabel] = "SIGTERM"
	}
	return out
}

// undo removes what a failed Create created.
func (e *Engine) undo(ctx context.Context, id string, volumes []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	var left error
	for _, v := range volumes { // no container uses it: the lock is held
		left = errors.Join(left, os.RemoveAll(e.volume(v)))
	}
	return errors.Join(left, e.drop(ctx, id))
}

// drop removes a container without a task, its log and its writable layer. The log
// comes first: if it cannot be removed, the container is still known, and Remove can be
// called again.
func (e *Engine) drop(ctx context.Context, id string) error {
	if err := os.RemoveAll(e.dir(id)); err != nil {
		return err
	}
	err := e.client.ContainerService().Delete(ctx, id)
	if err == nil || errdefs.IsNotFound(err) {
		err = e.client.SnapshotService(snapshotter).Remove(ctx, id)
	}
	switch {
	case errdefs.IsUnavailable(err): // containerd cannot remove anything
		return nil
	case err != nil && !errdefs.IsNotFound(err):
		return fmt.Errorf("removing container %s: %w", id, err)
	}
	return os.RemoveAll(e.lockOf(id))
}
