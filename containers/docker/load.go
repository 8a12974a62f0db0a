package docker

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/docker/docker/client"
)

// Load takes all images from an archive.
func (e *Engine) Load(ctx context.Context, archive io.Reader) error {
	const doing = "loading images"
	answer, err := e.client.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return e.loadFailed(ctx, doing, err)
	}
	defer answer.Body.Close()
	if _, err := follow(ctx, answer.Body, nil); err != nil {
		return e.loadFailed(ctx, doing, err)
	}
	return nil
}

// loadFailed names the remedy for what the engine says of an archive.
func (e *Engine) loadFailed(ctx context.Context, doing string, err error) error {
	text := plain(err)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	// Without manifest.json Docker takes an archive for what docker save wrote
	// ten years ago, where each directory is a layer with a file json.
	case strings.Contains(text, "/docker-import-") && strings.Contains(text, "no such file or directory"):
		return fmt.Errorf("%s: this Docker does not know the archive's format: write it with docker save, or skopeo copy to docker-archive", doing)
	case strings.Contains(text, "invalid diffID"), strings.Contains(text, "unexpected EOF"), strings.Contains(text, "invalid tar header"):
		return fmt.Errorf("%s: the archive is damaged: %s: copy it anew", doing, text)
	}
	return e.fail(doing, err)
}
