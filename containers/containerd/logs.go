package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/runtime/restart"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/containerd/logfile"
)

// Of the ways that containerd has for logs (a file, a program), a file has no
// times, which `logs --since` needs, and nobody would rotate it while kollet
// does not run. So each container has a small process that writes its log,
// kollet itself: started by the container's shim before the container is, also
// by the restart monitor, gone when the container's output has ended. It does
// not depend on containerd, which may be restarted. See package logfile for
// what becomes of the log when it dies.

// Log limits where the spec names none.
const (
	defaultLogSize  = 16 << 20
	defaultLogFiles = 3
)

// Files in a container's directory.
const (
	logFile     = "log"
	runFile     = "run"     // when its last run began
	writingFile = "writing" // locked while its log is being written
)

// drainTime bounds how long the log of a container that ended is waited for:
// processes that it left behind may still hold its output.
const drainTime = 2 * time.Second

// logURI is what the shim, and the restart monitor, start for the log.
func logURI(c ctr.Container) (*url.URL, error) {
	return url.Parse(c.Labels[restart.LogURILabel])
}

// newLogURI is that of a container to be.
func (e *Engine) newLogURI(id string, spec containers.Spec) (*url.URL, error) {
	size, files := spec.LogSize, spec.LogFiles
	if size == 0 {
		size, files = defaultLogSize, defaultLogFiles
	}
	// Docker's json-file driver keeps one file unless told otherwise.
	limits := fmt.Sprintf("%d,%d", size, max(files, 1))
	return cio.LogURIGenerator("binary", e.link(id), map[string]string{LogCommand: limits})
}

// Logs copies what a container printed to w.
func (e *Engine) Logs(ctx context.Context, id string, opts containers.LogOptions, w io.Writer) error {
	c, err := e.find(ctx, id)
	if err != nil {
		return e.fail("reading the log of container "+id, err)
	}
	doing := "reading the log of container " + nameOf(c)
	end := &logEnd{engine: e, ctx: ctx, id: c.ID}
	query := logfile.Query{Tail: opts.Tail, Since: opts.Since, Timestamps: opts.Timestamps}
	if opts.Follow || !end.running() {
		query.Ended = end.reached
	}
	err = logfile.Read(ctx, filepath.Join(e.dir(c.ID), logFile), query, w)
	if ctx.Err() != nil {
		if opts.Follow {
			return nil
		}
		return e.fail(doing, ctx.Err())
	}
	if err = errors.Join(err, end.failed); err != nil {
		return e.fail(doing, err)
	}
	return nil
}

// logEnd finds out when nothing more comes to a log.
type logEnd struct {
	engine *Engine
	ctx    context.Context // that of the one call of Logs
	id     string
	since  time.Time // the container does not run since; zero while it does
	failed error     // the engine cannot say
}

func (l *logEnd) running() bool {
	now, err := l.engine.look(l.ctx, l.id)
	if err != nil {
		l.failed = err
		return false
	}
	return now.Status.Status == client.Running
}

// reached tells that the container has ended and all that it said is written.
func (l *logEnd) reached() bool {
	if l.running() {
		l.since = time.Time{}
		return false
	}
	if l.failed != nil {
		return true
	}
	if l.since.IsZero() {
		l.since = time.Now()
		l.failed = l.engine.finish(l.ctx, l.id)
	}
	return !l.engine.writing(l.id) || time.Since(l.since) > drainTime
}

// finish deletes the task of a container that has ended by itself: before that
// the shim holds the pipes open, and their reader cannot know that all was said.
// Where the restart monitor is in charge, it will do so.
func (e *Engine) finish(ctx context.Context, id string) error {
	c, unlock, err := e.locked(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	now, err := e.look(ctx, id)
	if err != nil || now.Status.Status != client.Stopped || c.Labels[restart.StatusLabel] != "" {
		return err
	}
	return e.clear(ctx, c)
}

// writing tells whether there is a process that writes a container's log.
func (e *Engine) writing(id string) bool {
	file, err := os.Open(filepath.Join(e.dir(id), writingFile))
	if err != nil {
		return false
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}

// parseLimits reads the argument of the writer: bytes in a file, and files.
func parseLimits(text string) (size int64, files int, err error) {
	first, second, _ := strings.Cut(text, ",")
	if size, err = strconv.ParseInt(first, 10, 64); err == nil {
		files, err = strconv.Atoi(second)
	}
	if err != nil || size < 1 || files < 1 {
		return 0, 0, fmt.Errorf("log limits %q: expected BYTES,FILES", text)
	}
	return size, files, nil
}
