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

// Load takes all images from an archive.
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
	defer func() { _ = done(context.WithoutCancel(ctx)) }() // it ends by itself, too
	// A record that gets another image must not keep the labels of the one
	// before, so that a crash before the next lines leaves no mixture.
	records, err := e.client.Import(ctx, until{ctx, archive}, client.WithImageRefTranslator(fullName), client.WithImageLabels(map[string]string{}))
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return errors.New("the archive names no image: write it with docker save NAME:TAG")
	}
	var errs []error
	for _, record := range records {
		if _, err := e.adopt(ctx, record); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", record.Name, err), e.disown(ctx, record))
		}
	}
	return errors.Join(errs...)
}

// disown drops the name of an image that cannot be unpacked: it would be found
// and could not be used.
func (e *Engine) disown(ctx context.Context, record images.Image) error {
	err := e.client.ImageService().Delete(context.WithoutCancel(ctx), record.Name, images.DeleteTarget(&record.Target))
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// fullName completes a name as Docker does. A tag alone, which a layout may have
// in a name's place, names no image.
func fullName(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil || !strings.ContainsAny(name, "/:") {
		return ""
	}
	return reference.TagNameOnly(named).String()
}

// until is a reader that ends with its context: the client asks only that of
// what it writes to containerd.
type until struct {
	ctx  context.Context
	from io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.from.Read(p)
}
