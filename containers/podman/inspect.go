package podman

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/containerd/errdefs"

	"github.com/kollet/kollet/containers"
)

// inspected is what kollet uses of Podman's answer (libpod/define/container_inspect.go).
type inspected struct {
	ID           string `json:"Id"`
	Name         string
	Image        string // id, without sha256:
	ImageName    string
	RestartCount int
	Created      time.Time
	State        struct {
		Status        string
		Pid           int
		ExitCode      int
		Error         string
		StartedAt     time.Time
		FinishedAt    time.Time
		StoppedByUser bool
	}
	Config struct {
		Env        []string
		Labels     map[string]string
		Cmd        []string
		Entrypoint []string
		WorkingDir string
		User       string
		StopSignal string
	}
	HostConfig hostConfig
	Mounts     []struct {
		Type, Name, Source, Destination, Propagation string
		RW                                           bool
	}
}

type hostConfig struct {
	RestartPolicy  struct{ Name string }
	NetworkMode    string
	PidMode        string
	IpcMode        string
	CgroupMode     string
	Privileged     bool
	ReadonlyRootfs bool
	CapAdd         []string
	CapDrop        []string
	Devices        []struct{ PathOnHost string }
	Ulimits        []struct {
		Name       string
		Soft, Hard int64
	}
	Memory, MemoryReservation, MemorySwap int64
	CPUShares                             int64 `json:"CpuShares"`
	CPUPeriod                             int64 `json:"CpuPeriod"`
	CPUQuota                              int64 `json:"CpuQuota"`
	CpusetCpus, CpusetMems                string
	BlkioWeight                           int64
}

// noticeTime is how long Podman may take to start a container again that exited by itself: what
// does so is a program that the container's monitor starts.
const noticeTime = containers.KillTime

// Inspect returns a container by its full id or its name. Podman also accepts the beginning of
// an id.
func (e *Engine) Inspect(ctx context.Context, id string) (containers.Container, error) {
	doing := "inspecting container " + id
	c, err := e.inspect(ctx, id)
	if err == nil && c.ID != id && c.Name != id {
		err = fmt.Errorf("no container has this id or name: %w", errdefs.ErrNotFound)
	}
	if err != nil {
		return containers.Container{}, e.Explain(doing, err)
	}
	image, err := e.Engine.Image(ctx, c.Image)
	if err != nil && !errors.Is(err, containers.ErrNotFound) {
		return containers.Container{}, fmt.Errorf("%s: %w", doing, err)
	}
	out := containers.Container{
		ID:       c.ID,
		ImageID:  "sha256:" + c.Image,
		Spec:     c.spec(image),
		State:    c.state(),
		Restarts: c.RestartCount,
		Error:    c.State.Error,
		Created:  c.Created,
		Started:  c.State.StartedAt,
		Finished: c.State.FinishedAt,
	}
	if out.State == containers.StateRunning || out.State == containers.StatePaused {
		out.PID = c.State.Pid
	} else {
		out.ExitCode = c.State.ExitCode
	}
	return out, nil
}

func (e *Engine) inspect(ctx context.Context, id string) (inspected, error) {
	var c inspected
	if id == "" { // Podman would list all
		return c, fmt.Errorf("no container has an empty id: %w", errdefs.ErrNotFound)
	}
	err := e.libpod.get(ctx, "containers/"+url.PathEscape(id)+"/json", nil, &c)
	return c, err
}

// state returns a container's state. Podman has none between two runs.
func (c inspected) state() containers.State {
	switch c.State.Status {
	case "created", "initialized":
		if c.restarts() {
			return containers.StateRestarting
		}
		if !c.State.FinishedAt.IsZero() {
			return containers.StateExited // the next run has been prepared, and not started
		}
		return containers.StateCreated
	case "running", "stopping":
		return containers.StateRunning
	case "paused":
		return containers.StatePaused
	case "stopped", "exited":
		if c.restarts() {
			return containers.StateRestarting
		}
		return containers.StateExited
	case "removing":
		return containers.StateRemoving
	}
	return containers.StateOther
}

// restarts reports whether Podman will start a container again that does not run: it exited by
// itself, just now, and has a policy for that.
func (c inspected) restarts() bool {
	return !c.State.StoppedByUser && !c.State.FinishedAt.IsZero() && time.Since(c.State.FinishedAt) < noticeTime &&
		c.policy() != containers.RestartNo
}

func (c inspected) policy() containers.Restart {
	return cmp.Or(containers.Restart(c.HostConfig.RestartPolicy.Name), containers.RestartNo)
}

// List returns all containers that have every one of the labels.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]containers.Container, error) {
	query := url.Values{"all": {"true"}}
	var wanted []string
	for key, value := range labels {
		wanted = append(wanted, key+"="+value)
	}
	if len(wanted) > 0 {
		text, err := json.Marshal(map[string][]string{"label": wanted})
		if err != nil {
			return nil, fmt.Errorf("listing containers: %w", err)
		}
		query.Set("filters", string(text))
	}
	var found []struct {
		ID string `json:"Id"`
	}
	if err := e.libpod.get(ctx, "containers/json", query, &found); err != nil {
		return nil, e.Explain("listing containers", err)
	}
	var ids []string
	for _, f := range found {
		ids = append(ids, f.ID)
	}
	// A container has the labels of its image too, which anyone may have made.
	all, err := containers.InspectAll(ids, func(id string) (containers.Container, error) { return e.Inspect(ctx, id) })
	return slices.DeleteFunc(all, func(c containers.Container) bool { return !containers.HasLabels(c.Spec.Labels, labels) }), err
}
