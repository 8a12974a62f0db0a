package podman

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// undoTime bounds the removal of what a cancelled Create created.
const undoTime = 30 * time.Second

// volumeLabel marks volumes that kollet created.
const volumeLabel = "org.kollet.volume"

// Create creates a container from spec.
func (e *Engine) Create(ctx context.Context, spec containers.Spec) (string, error) {
	doing := "creating container " + spec.Name
	if err := spec.Check(); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if len(spec.Healthcheck.Test) > 0 {
		return "", fmt.Errorf("%s: engine_healthcheck: %w", doing, containers.ErrNoHealthcheck)
	}
	spec = spec.Canonical()
	if err := checkSources(spec.Mounts); err != nil {
		return "", e.Explain(doing, err)
	}
	if name := spec.Security.AppArmor; name != "" && name != containers.Unconfined {
		if err := host.Real().CheckAppArmor(name); err != nil {
			return "", fmt.Errorf("%s: apparmor=%s: %w", doing, name, err)
		}
	}
	volumes, err := e.makeVolumes(ctx, spec.Mounts)
	if err == nil {
		var id string
		if id, err = e.create(ctx, spec); err == nil {
			return id, nil
		}
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	for _, v := range volumes { // without force: one that another container uses by now stays
		undone := e.libpod.do(undo, http.MethodDelete, "volumes/"+v, nil, nil, nil)
		if undone != nil && !errdefs.IsNotFound(undone) && !errdefs.IsConflict(undone) {
			err = errors.Join(err, fmt.Errorf("removing the new volume %s: %w", v, undone))
		}
	}
	return "", e.Explain(doing, err)
}

// checkSources checks that the sources of bind mounts exist. Podman notices at the start.
func checkSources(mounts []containers.Mount) error {
	for _, m := range mounts {
		if m.Type != containers.Bind {
			continue
		}
		if _, err := os.Stat(m.Source); err != nil {
			return failure.Mark(failure.MissingSource, fmt.Errorf("source of the bind mount at %s: %w", m.Target, err))
		}
	}
	return nil
}

// makeVolumes creates the named volumes that do not exist, and returns their names.
func (e *Engine) makeVolumes(ctx context.Context, mounts []containers.Mount) ([]string, error) {
	var made []string
	for _, m := range mounts {
		if m.Type != containers.Volume || slices.Contains(made, m.Source) {
			continue
		}
		isNew, err := e.makeVolume(ctx, m.Source)
		if err != nil {
			return made, err
		}
		if isNew {
			made = append(made, m.Source)
		}
	}
	return made, nil
}

// makeVolume creates a named volume, unless it exists: another container may be created with it at
// the same time.
func (e *Engine) makeVolume(ctx context.Context, name string) (isNew bool, err error) {
	find := func() error { return e.libpod.get(ctx, "volumes/"+name+"/json", nil, nil) }
	if err := find(); err == nil || !errdefs.IsNotFound(err) {
		return false, err
	}
	body := map[string]any{"Name": name, "Label": map[string]string{volumeLabel: "true"}}
	if err := e.libpod.do(ctx, http.MethodPost, "volumes/create", nil, body, nil); err != nil {
		if find() == nil {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

// create sends the request, and waits for the answer even if ctx ends: Podman continues with a
// request whose client has disconnected, which would leave an unknown container.
func (e *Engine) create(ctx context.Context, spec containers.Spec) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	v2, err := host.Real().CgroupV2()
	if err != nil {
		return "", err
	}
	profile, done, err := seccompFile(spec.Security.Seccomp)
	if err != nil {
		return "", err
	}
	defer done()
	request, err := toPodman(spec, profile, v2)
	if err != nil {
		return "", err
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	var answer struct {
		ID       string `json:"Id"`
		Warnings []string
	}
	if err := e.libpod.do(detached, http.MethodPost, "containers/create", nil, request, &answer); err != nil {
		return "", err
	}
	if err = ctx.Err(); err == nil {
		err = e.checkDimensions(detached, answer.ID, spec, answer.Warnings)
	}
	if err != nil {
		return "", errors.Join(err, e.remove(detached, answer.ID, true))
	}
	return answer.ID, nil
}

// checkDimensions returns an error if Podman has dropped any dimension: it leaves out what the host
// cannot limit, with a warning.
func (e *Engine) checkDimensions(ctx context.Context, id string, spec containers.Spec, warnings []string) error {
	want := spec.Dimensions.Settings()
	if len(want) == 0 {
		return nil
	}
	c, err := e.Inspect(ctx, id)
	if err != nil {
		return err
	}
	got := c.Spec.Dimensions.Settings()
	dropped := slices.DeleteFunc(want, func(s string) bool { return slices.Contains(got, s) })
	if len(dropped) == 0 {
		return nil
	}
	return fmt.Errorf("podman cannot limit this on this host: %s; remove it from dimensions (%s)", strings.Join(dropped, ", "), strings.Join(warnings, "; "))
}

// seccompFile returns a path at which Podman finds a profile until done is called: it reads a
// file, and keeps what is in it. It is a file in memory, of which nothing remains after a crash.
func seccompFile(profile string) (path string, done func(), err error) {
	if profile == "" || profile == containers.Unconfined {
		return profile, func() {}, nil
	}
	fd, err := unix.MemfdCreate("seccomp", unix.MFD_CLOEXEC)
	if err != nil {
		return "", nil, fmt.Errorf("seccomp profile: %w", err)
	}
	file := os.NewFile(uintptr(fd), "seccomp")
	if _, err := file.WriteString(profile); err != nil {
		file.Close()
		return "", nil, fmt.Errorf("seccomp profile: %w", err)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), func() { file.Close() }, nil
}

// remove removes a container and its anonymous volumes.
func (e *Engine) remove(ctx context.Context, id string, force bool) error {
	query := url.Values{"v": {"true"}}
	if force {
		query.Set("force", "true")
		query.Set("timeout", "0")
	}
	err := e.libpod.do(ctx, http.MethodDelete, "containers/"+id, query, nil, nil)
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
