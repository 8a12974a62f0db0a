package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"github.com/kollet/kollet/agent/host"
)

// If a client is killed while containerd creates or deletes a task for it, containerd continues
// for a second, and longer on a busy machine: it ends the task's shim and removes the task's
// bundle, the directory with its configuration. Until then it shows no task, but another one of
// the container is refused, or its shim fails because the directory is there, or it is ended
// and removed in place of the first. What the OCI runtime writes into the directory meanwhile
// stays, and nobody removes it.

// abandonedTime is how long containerd may take to remove a task that nobody waits for any
// longer.
const abandonedTime = 10 * time.Second

// shimEndTime is how long a shim may take to end after its task was deleted.
const shimEndTime = time.Second

// newTask creates a task. It tries again as long as an abandoned one may be in the way.
func (e *Engine) newTask(ctx context.Context, c ctr.Container) (task, error) {
	request, err := e.taskRequest(ctx, c)
	if err != nil {
		return task{}, err
	}
	for until := time.Now().Add(abandonedTime); ; {
		if err := e.awaitShims(ctx, c.ID, until); err != nil {
			return task{}, err
		}
		// The log writer of a task that is not started, also of the abandoned one, counts a run.
		if err := e.forgetRestarts(c.ID); err != nil {
			return task{}, err
		}
		answer, err := e.client.TaskService().Create(ctx, request)
		if err == nil {
			return e.task(c.ID, int(answer.Pid)), nil
		}
		err = errgrpc.ToNative(err)
		if !inTheWay(c.ID, err) || time.Now().After(until) {
			return task{}, err
		}
		removeBundle(c.ID, err)
		if err := pause(ctx); err != nil {
			return task{}, err
		}
		now, err := e.look(ctx, c.ID)
		if err == nil && now.exists() {
			err = e.clear(ctx, c, now)
		} else if err == nil {
			err = e.deleteTask(ctx, c.ID)
		}
		if err != nil {
			return task{}, err
		}
	}
}

// taskRequest asks for a task of a container, whose output goes to its log.
func (e *Engine) taskRequest(ctx context.Context, c ctr.Container) (*tasks.CreateTaskRequest, error) {
	uri, err := logURI(c)
	if err != nil {
		return nil, err
	}
	request := &tasks.CreateTaskRequest{ContainerID: c.ID, Stdout: uri.String(), Stderr: uri.String()}
	if c.SnapshotKey == "" { // another tool created it, and it has a directory instead
		return request, nil
	}
	mounts, err := e.client.SnapshotService(c.Snapshotter).Mounts(ctx, c.SnapshotKey)
	if err != nil {
		return nil, err
	}
	spec, err := ociOf(c)
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if spec.Linux.MountLabel != "" { // another tool's
			m.Options = append(m.Options, fmt.Sprintf("context=%q", spec.Linux.MountLabel))
		}
		request.Rootfs = append(request.Rootfs, &types.Mount{Type: m.Type, Source: m.Source, Target: m.Target, Options: m.Options})
	}
	return request, nil
}

// awaitShims waits until nothing cleans up after a container's shim, and a moment for the shim
// itself to end. One that containerd has forgotten does not end, and serves the next task.
func (e *Engine) awaitShims(ctx context.Context, id string, until time.Time) error {
	if e.runOf(id).IsZero() { // it never had one
		return nil
	}
	for begun := time.Now(); time.Now().Before(until); {
		shim, cleaning := shimsOf(id)
		if !cleaning && (!shim || time.Since(begun) > shimEndTime) {
			break
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// shimsOf reports whether a container's shim runs, and whether containerd cleans up after one
// that has ended, by their arguments (containerd: pkg/shim/util_unix.go, Command; the last one
// is the action).
func shimsOf(id string) (shim, cleaning bool) {
	pids, err := host.Real().Processes()
	if err != nil {
		return false, false
	}
	for _, pid := range pids {
		if !host.Real().IsShim(pid) {
			continue // a node has many processes, and this is what can be asked fastest
		}
		line, err := host.Real().CommandLine(pid)
		at := slices.Index(line, "-id")
		if err != nil || at <= 0 || at+1 >= len(line) || line[at+1] != id || !outside(pid) {
			continue
		}
		shim = true
		cleaning = cleaning || line[len(line)-1] == "delete"
	}
	return shim, cleaning
}

// outside reports whether a process is in no container with pids of its own: such a process
// may have any arguments.
func outside(pid int) bool {
	theirs, err := os.Readlink(host.Real().ProcessPath(pid, "ns/pid"))
	own, failed := os.Readlink("/proc/self/ns/pid")
	return err == nil && failed == nil && theirs == own
}

// inTheWay reports whether a task may not have been created because of one that is about to be
// removed. EEXIST is that of mkdir(2), for the task's bundle (core/runtime/v2/bundle.go).
func inTheWay(id string, err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return errdefs.IsAlreadyExists(err) || strings.Contains(text, "failed to start shim") ||
		strings.Contains(text, "ttrpc: closed") || strings.HasSuffix(text, syscall.EEXIST.Error()) ||
		strings.Contains(text, "/"+id+"/") && strings.Contains(text, syscall.ENOENT.Error())
}

// existing finds a bundle's directory in containerd's error: STATE/NAMESPACE/ID. The state is that of
// containerd's plugin for tasks.
var existing = regexp.MustCompile(`^(?:.*: )?mkdir (/\S+/io\.containerd\.runtime\.v2\.task/[^/\s]+/[^/\s]+): ` + syscall.EEXIST.Error())

// removeBundle removes a bundle that is in the way of a new one if it is nobody's: it has no
// configuration, which is the first that containerd writes there, and nobody is removing it.
func removeBundle(id string, err error) {
	found := existing.FindStringSubmatch(err.Error())
	if found == nil || filepath.Base(found[1]) != id {
		return
	}
	if _, cleaning := shimsOf(id); cleaning {
		return
	}
	bundle, err := filepath.EvalSymlinks(found[1]) // mounts have paths without links
	if err != nil {
		return
	}
	if _, err := os.Lstat(filepath.Join(bundle, "config.json")); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if mount, err := host.Real().MountOf(filepath.Join(bundle, "rootfs")); err != nil || strings.HasPrefix(mount.Point, bundle) {
		return
	}
	_ = os.RemoveAll(bundle) // the next try says why it failed
}

// forgetTask ends what is left of a task if its client was killed while it deleted the task:
// containerd then shows no task, but keeps its shim, and refuses to create another task
// (core/runtime/v2/shim.go: delete). If the shim ends later, containerd forgets it by itself.
func (e *Engine) forgetTask(ctx context.Context, id string) error {
	if e.runOf(id).IsZero() { // it never had one
		return nil
	}
	if shim, _ := shimsOf(id); !shim {
		return nil
	}
	return e.deleteTask(ctx, id)
}

// deleteTask deletes a task that containerd may not show.
func (e *Engine) deleteTask(ctx context.Context, id string) error {
	_, err := e.client.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	if err = errgrpc.ToNative(err); errdefs.IsNotFound(err) || errdefs.IsFailedPrecondition(err) {
		return nil // there was none, or the restart monitor has started one
	}
	return err
}
