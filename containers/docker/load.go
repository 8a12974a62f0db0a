package docker

import (
	"context"
	"io"

	"github.com/docker/docker/client"
)

// Load imports all images of an archive.
func (e *Engine) Load(ctx context.Context, archive io.Reader) error {
	const doing = "loading images"
	answer, err := e.client.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return e.errors.LoadError(ctx, doing, err)
	}
	defer answer.Body.Close()
	if _, err := e.dialect.follow(ctx, answer.Body, nil); err != nil {
		return e.errors.LoadError(ctx, doing, err)
	}
	return nil
}
