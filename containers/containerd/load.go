package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
)

// Load imports all images of an archive.
func (e *Engine) Load(ctx context.Context, archive io.Reader) error {
	const doing = "loading images"
	if err := e.load(quiet(ctx), archive); err != nil {
		return e.errors.LoadError(ctx, doing, err)
	}
	return nil
}

func (e *Engine) load(ctx context.Context, archive io.Reader) error {
	ctx, done, err := e.client.WithLease(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = done(context.WithoutCancel(ctx)) }() // otherwise it expires
	// A record that gets another image must not keep the labels of the previous
	// image, even if kollet dies before adopt sets the new ones.
	records, err := e.client.Import(ctx, contextReader{ctx, archive}, client.WithImageRefTranslator(fullName), client.WithImageLabels(map[string]string{}))
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return errors.New("the archive contains no named image; write it with docker save NAME:TAG")
	}
	var errs []error
	for _, record := range records {
		if _, err := e.adopt(ctx, record); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", record.Name, err), e.disown(ctx, record))
		}
	}
	return errors.Join(errs...)
}

// disown removes the name of an image that cannot be unpacked: otherwise Image
// would return an image that cannot be used.
func (e *Engine) disown(ctx context.Context, record images.Image) error {
	err := e.client.ImageService().Delete(context.WithoutCancel(ctx), record.Name, images.DeleteTarget(&record.Target))
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// fullName completes a name as Docker does. It returns nothing for a mere tag,
// which an OCI image layout may have instead of a name.
func fullName(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil || !strings.ContainsAny(name, "/:") {
		return ""
	}
	return reference.TagNameOnly(named).String()
}

// contextReader fails when its context ends: the client passes the context only to
// what it writes to containerd.
type contextReader struct {
	ctx  context.Context
	from io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
