package docker

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/kollet/kollet/containers"
)

// Logs copies what a container printed to w.
func (e *Engine) Logs(ctx context.Context, id string, opts containers.LogOptions, w io.Writer) error {
	doing := func() string { return "reading the log of container " + e.nameOf(ctx, id) }
	c, err := e.client.ContainerInspect(ctx, id)
	if err != nil {
		return e.fail(doing(), err)
	}
	query := container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: opts.Follow, Timestamps: opts.Timestamps, Tail: "all"}
	if opts.Tail > 0 {
		query.Tail = strconv.Itoa(opts.Tail)
	}
	if !opts.Since.IsZero() {
		query.Since = opts.Since.UTC().Format(time.RFC3339Nano)
	}
	stream, err := e.client.ContainerLogs(ctx, id, query)
	if err == nil {
		defer stream.Close()
		if c.Config.Tty { // then the engine does not separate output and errors
			_, err = io.Copy(w, stream)
		} else {
			_, err = stdcopy.StdCopy(w, w, stream)
		}
	}
	if ctx.Err() != nil {
		if opts.Follow {
			return nil
		}
		return e.fail(doing(), ctx.Err())
	}
	if err != nil {
		return e.fail(doing(), err)
	}
	return nil
}
