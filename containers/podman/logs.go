package podman

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/kollet/kollet/containers"
)

// Logs copies what a container printed to w.
func (e *Engine) Logs(ctx context.Context, id string, opts containers.LogOptions, w io.Writer) error {
	if opts.Since.IsZero() {
		return e.Engine.Logs(ctx, id, opts, w)
	}
	// Podman ignores the fraction of a second of Since. Each line comes in one piece.
	since := &sinceWriter{next: w, since: opts.Since, stamps: opts.Timestamps}
	opts.Timestamps = true
	return e.Engine.Logs(ctx, id, opts, since)
}

// sinceWriter passes on the lines of a log that are not older than a time.
type sinceWriter struct {
	next   io.Writer
	since  time.Time
	stamps bool // with their timestamps
}

func (w *sinceWriter) Write(line []byte) (int, error) {
	stamp, text, _ := bytes.Cut(line, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return 0, fmt.Errorf("timestamp of a line: %w", err)
	}
	if at.Before(w.since) {
		return len(line), nil
	}
	if w.stamps {
		text = line
	}
	if _, err := w.next.Write(text); err != nil {
		return 0, err
	}
	return len(line), nil
}
