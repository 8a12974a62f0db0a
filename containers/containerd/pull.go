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

// atOnce is how many layers are fetched at the same time, as with Docker.
const atOnce = 3

// resumeTime is how long the layers of a pull that failed are kept, so that the
// next one goes on where it ended.
const resumeTime = 24 * time.Hour

// Pull fetches an image from its registry.
func (e *Engine) Pull(ctx context.Context, ref string, progress func(containers.Progress)) (containers.Image, error) {
	doing := "pulling image " + ref
	if strings.HasPrefix(ref, "sha256:") {
		return containers.Image{}, fmt.Errorf("%s: %w", doing, errNoImageName)
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return containers.Image{}, fmt.Errorf("%s: %w: expected [REGISTRY/]NAME[:TAG][@DIGEST]", doing, err)
	}
	if digested, ok := named.(reference.Digested); ok { // which counts more than a tag
		if named, err = reference.WithDigest(reference.TrimNamed(named), digested.Digest()); err != nil {
			return containers.Image{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	named = reference.TagNameOnly(named)
	record, err := e.pull(ctx, named, progress)
	if err != nil {
		return containers.Image{}, e.pullFailed(ctx, ref, named, err)
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
		client.WithMaxConcurrentDownloads(atOnce),
		client.WithImageHandlerWrapper(layers.wrap))
	stop()
	watcher.Wait()
	if err != nil {
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

// quiet keeps the client from logging to standard error: what matters comes back
// as an error.
func quiet(ctx context.Context) context.Context {
	nobody := logrus.New()
	nobody.SetOutput(io.Discard)
	return log.WithLogger(ctx, logrus.NewEntry(nobody))
}

// leased keeps what is fetched from containerd's garbage collection, beyond a
// failure.
func (e *Engine) leased(ctx context.Context) (context.Context, error) {
	lease, err := e.client.LeasesService().Create(ctx, leases.WithRandomID(), leases.WithExpiration(resumeTime))
	if err != nil {
		return ctx, err
	}
	return leases.WithLease(ctx, lease.ID), nil
}

// fetched is how far the layers of a pull are.
type fetched struct {
	store  content.Store
	report func(containers.Progress)

	mutex sync.Mutex
	sizes map[digest.Digest]int64 // of the layers that were not there before
	last  containers.Progress
}

// wrap notes each layer before it is fetched.
func (f *fetched) wrap(next images.Handler) images.Handler {
	return images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
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

// sum asks how much is there of each layer.
func (f *fetched) sum(ctx context.Context) {
	statuses, err := f.store.ListStatuses(ctx)
	if err != nil {
		return // the pull itself will say it
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
	f.say(now, complete)
}

// complete reports that all is there.
func (f *fetched) complete() {
	var now containers.Progress
	for _, size := range f.sizes {
		now.Done += size
	}
	now.Total = now.Done
	f.say(now, len(f.sizes))
}

func (f *fetched) say(now containers.Progress, complete int) {
	now.Status = fmt.Sprintf("%d of %d layers", complete, len(f.sizes))
	if f.report != nil && now != f.last {
		f.report(now)
		f.last = now
	}
}

// pullFailed names the remedy for what a registry, or the way to it, answers.
func (e *Engine) pullFailed(ctx context.Context, ref string, named reference.Named, err error) error {
	doing := "pulling image " + ref
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	var login loginError
	if errors.As(err, &login) {
		return fmt.Errorf("%s: %w", doing, login.error)
	}
	host := reference.Domain(named)
	text := plain(err)
	says := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case says("unauthorized", "Unauthorized", "no basic auth credentials", "insufficient_scope", "pull access denied", "authorization failed", "403 Forbidden"):
		return fmt.Errorf("%s: registry %s refuses: %s: log in with docker login %s, or check the image's name", doing, host, text, host)
	case says("server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%s: registry %s speaks plain HTTP, which kollet does not trust: say so in %s/%s/hosts.toml: [host.\"http://%s\"]", doing, host, e.certs, host, host)
	case says("x509:", "tls:"):
		return fmt.Errorf("%s: kollet does not trust the certificate of registry %s: %s: put its CA at %s/%s/ca.crt", doing, host, text, e.certs, host)
	case says("toomanyrequests", "429 Too Many Requests"):
		return fmt.Errorf("%s: registry %s limits pulls: %s: log in with docker login %s, or wait", doing, host, text, host)
	case says("no match for platform"), errdefs.IsNotFound(err) && says("failed to resolve reference", "from remote"):
		return fmt.Errorf("%s: %w in registry %s: %s: check the image's name and tag there", doing, containers.ErrNotFound, host, text)
	case says("dial tcp", "connection refused", "no such host", "i/o timeout", "no route to host", "Client.Timeout", "TLS handshake timeout"):
		return fmt.Errorf("%s: registry %s %w: %s: check that it runs, and its name and the network on the way", doing, host, containers.ErrRegistryUnreachable, text)
	}
	return e.fail(doing, err)
}
