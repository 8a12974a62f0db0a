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

// containerd writes logs to a file or to a program. A file would have no times,
// which `kollet logs --since` needs, and would not be rotated while kollet is not
// running. So each container has a small process that writes its log: kollet
// itself. The container's shim starts it before the container, also when the
// restart monitor starts the container, and it exits when the container's output
// ends. It does not depend on containerd, which may be restarted. Package logfile
// describes what happens to the log if the process dies.

// Log limits if the spec sets none.
const (
	defaultLogSize  = 16 << 20
	defaultLogFiles = 3
)

// Files in a container's directory.
const (
	logFile      = "log"
	runFile      = "run"      // contains when its last run began
	writingFile  = "writing"  // locked while its log is being written
	restartsFile = "restarts" // contains how often the restart monitor started it, see countRun
)

// drainTime bounds how long Logs waits for the end of an exited container's log:
// processes that the container left behind may still hold its output open.
const drainTime = 2 * time.Second

// logURI returns the program that the shim starts for the log, as a URI.
func logURI(c ctr.Container) (*url.URL, error) {
	return url.Parse(c.Labels[restart.LogURILabel])
}

// newLogURI returns the logURI for a new container.
func (e *Engine) newLogURI(id string, spec containers.Spec) (*url.URL, error) {
	size, files := spec.LogSize, spec.LogFiles
	if size == 0 {
		size, files = defaultLogSize, defaultLogFiles
	}
	// As Docker's json-file driver, keep one file by default.
	limits := fmt.Sprintf("%d,%d", size, max(files, 1))
	return cio.LogURIGenerator("binary", e.link(id), map[string]string{LogCommand: limits})
}

// Logs copies the output of a container to w.
func (e *Engine) Logs(ctx context.Context, id string, opts containers.LogOptions, w io.Writer) error {
	c, err := e.find(ctx, id)
	if err != nil {
		return e.fail("reading the log of container "+id, err)
	}
	doing := "reading the log of container " + nameOf(c)
	end := &logEnd{engine: e, ctx: ctx, id: c.ID}
	query := logfile.Query{Tail: opts.Tail, Since: opts.Since, Timestamps: opts.Timestamps}
	if opts.Follow {
		query.Ended = end.reached
	} else if !end.running() {
		// If it is started again meanwhile, all that it printed before is there.
		query.Ended = func() bool { return end.running() || end.reached() }
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

// logEnd determines when a log has ended.
type logEnd struct {
	engine *Engine
	ctx    context.Context // of the call of Logs
	id     string
	since  time.Time // when the container was first seen stopped; zero while it runs
	failed error     // why its state is unknown
}

// running reports whether the container may still print: it runs, is paused, or is about to
// run.
func (l *logEnd) running() bool {
	now, err := l.engine.look(l.ctx, l.id)
	if err != nil {
		l.failed = err
		return false
	}
	return now.alive() || now.is(client.Created)
}

// reached reports whether the container has exited and all its output is written.
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

// finish deletes the task of a container that exited by itself: until then the shim
// holds the pipes open, so that the log writer sees no end of the output. If the
// restart monitor watches the container, the monitor deletes the task.
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
	if err != nil || !now.is(client.Stopped) || c.Labels[restart.StatusLabel] != "" {
		return err
	}
	return e.clear(ctx, c, now)
}

// writing reports whether a process writes the container's log.
func (e *Engine) writing(id string) bool {
	file, err := os.Open(filepath.Join(e.dir(id), writingFile))
	if err != nil {
		return false
	}
	defer file.Close()
	found := unix.Flock_t{Type: unix.F_WRLCK} // it is not taken: another caller would take it for a writer's
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &found) == nil && found.Type != unix.F_UNLCK
}

// parseLimits parses the log writer's argument: bytes per file, number of files.
func parseLimits(text string) (size int64, files int, err error) {
	first, second, _ := strings.Cut(text, ",")
	if size, err = strconv.ParseInt(first, 10, 64); err == nil {
		files, err = strconv.Atoi(second)
	}
	if err != nil || size < 1 || files < 1 {
		return 0, 0, fmt.Errorf("log limits %q; expected BYTES,FILES", text)
	}
	return size, files, nil
}
