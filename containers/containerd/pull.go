package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"

	"github.com/kollet/kollet/containers"
)

// parallelLayers is how many layers are fetched concurrently, as with Docker.
const parallelLayers = 3

// resumeTime is how long the layers of a failed pull are kept, so that the next pull
// resumes.
const resumeTime = 24 * time.Hour

// Pull fetches an image from its registry.
func (e *Engine) Pull(ctx context.Context, ref string, progress func(containers.Progress)) (containers.Image, error) {
	doing := "pulling image " + ref
	if strings.HasPrefix(ref, "sha256:") {
		return containers.Image{}, fmt.Errorf("%s: %w", doing, errNoImageName)
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return containers.Image{}, fmt.Errorf("%s: %w; expected [REGISTRY/]NAME[:TAG][@DIGEST]", doing, err)
	}
	if digested, ok := named.(reference.Digested); ok { // a digest takes precedence over a tag
		if named, err = reference.WithDigest(reference.TrimNamed(named), digested.Digest()); err != nil {
			return containers.Image{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	named = reference.TagNameOnly(named)
	record, err := e.pull(ctx, named, progress)
	if err != nil {
		return containers.Image{}, e.pullFailed(ctx, doing, reference.Domain(named), err)
	}
	// The tag may move before it is looked up.
	_, image, err := e.findImage(ctx, digestName(record))
	if err != nil {
		return containers.Image{}, e.fail(doing, err)
	}
	return image, nil
}

func (e *Engine) pull(ctx context.Context, named reference.Named, progress func(containers.Progress)) (images.Image, error) {
	ctx, err := e.leased(quiet(ctx))
	if err != nil {
		return images.Image{}, err
	}
	resolver, err := e.resolver(ctx, reference.Domain(named))
	if err != nil {
		return images.Image{}, err
	}
	layers := &fetched{store: e.client.ContentStore(), report: progress, sizes: map[digest.Digest]int64{}}
	watched, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { layers.watch(watched) })
	pulled, err := e.client.Pull(ctx, named.String(),
		client.WithResolver(resolver),
		client.WithPullUnpack, client.WithPullSnapshotter(snapshotter),
		client.WithMaxConcurrentDownloads(parallelLayers),
		client.WithImageHandlerWrapper(layers.wrap))
	stop()
	watcher.Wait()
	if err != nil {
		layers.dropSpoiled(context.WithoutCancel(ctx))
		return images.Image{}, err
	}
	layers.complete()
	record, err := e.adopt(ctx, pulled.Metadata())
	if err != nil {
		return images.Image{}, err
	}
	id, _ := leases.FromContext(ctx)
	return record, e.client.LeasesService().Delete(ctx, leases.Lease{ID: id})
}

// quiet keeps the client from logging to standard error; it also returns errors.
func quiet(ctx context.Context) context.Context {
	discard := logrus.New()
	discard.SetOutput(io.Discard)
	return log.WithLogger(ctx, logrus.NewEntry(discard))
}

// leased protects what is fetched from containerd's garbage collection, even after
// a failure.
func (e *Engine) leased(ctx context.Context) (context.Context, error) {
	lease, err := e.client.LeasesService().Create(ctx, leases.WithRandomID(), leases.WithExpiration(resumeTime))
	if err != nil {
		return ctx, err
	}
	return leases.WithLease(ctx, lease.ID), nil
}

// fetched is the progress of a pull.
type fetched struct {
	store  content.Store
	report func(containers.Progress)

	mutex sync.Mutex
	sizes map[digest.Digest]int64 // of the layers that were not present
	asked []ocispec.Descriptor
	last  containers.Progress
}

// dropSpoiled drops what has arrived in full and was not accepted: it does not match its
// digest, and the client would not fetch it again. What arrived in part stays, and is resumed.
func (f *fetched) dropSpoiled(ctx context.Context) {
	for _, desc := range f.asked {
		ref := remotes.MakeRefKey(ctx, desc)
		if status, err := f.store.Status(ctx, ref); err == nil && status.Offset >= desc.Size {
			_ = f.store.Abort(ctx, ref) // the pull itself returns an error
		}
	}
}

// wrap records each layer before it is fetched.
func (f *fetched) wrap(next images.Handler) images.Handler {
	return images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		f.mutex.Lock()
		f.asked = append(f.asked, desc)
		f.mutex.Unlock()
		if images.IsLayerType(desc.MediaType) {
			if _, err := f.store.Info(ctx, desc.Digest); errdefs.IsNotFound(err) {
				f.mutex.Lock()
				f.sizes[desc.Digest] = desc.Size
				f.mutex.Unlock()
			}
		}
		return next.Handle(ctx, desc)
	})
}

// watch reports until ctx ends.
func (f *fetched) watch(ctx context.Context) {
	if f.report == nil {
		return
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.sum(ctx)
		}
	}
}

// sum reports how much of each layer is present.
func (f *fetched) sum(ctx context.Context) {
	statuses, err := f.store.ListStatuses(ctx)
	if err != nil {
		return // the pull itself returns the error
	}
	arriving := map[string]int64{}
	for _, s := range statuses {
		arriving[s.Ref] = s.Offset
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var now containers.Progress
	complete := 0
	for d, size := range f.sizes {
		now.Total += size
		ref := remotes.MakeRefKey(ctx, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: d})
		if offset, ok := arriving[ref]; ok {
			now.Done += min(offset, size)
		} else if _, err := f.store.Info(ctx, d); err == nil {
			now.Done += size
			complete++
		}
	}
	f.progress(now, complete)
}

// complete reports that all layers are present.
func (f *fetched) complete() {
	var now containers.Progress
	for _, size := range f.sizes {
		now.Done += size
	}
	now.Total = now.Done
	f.progress(now, len(f.sizes))
}

func (f *fetched) progress(now containers.Progress, complete int) {
	now.Status = fmt.Sprintf("%d of %d layers", complete, len(f.sizes))
	if f.report != nil && now != f.last {
		f.report(now)
		f.last = now
	}
}

// pullFailed explains why an image was not pulled. A problem with Docker's
// configuration file is not the registry's.
func (e *Engine) pullFailed(ctx context.Context, doing, registry string, err error) error {
	var login loginError
	if ctx.Err() == nil && errors.As(err, &login) {
		return fmt.Errorf("%s: %w", doing, login.error)
	}
	return e.errors.PullError(ctx, doing, registry, err)
}
