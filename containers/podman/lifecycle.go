package podman

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/docker"
)

// Start starts a created or stopped container.
func (e *Engine) Start(ctx context.Context, id string) error {
	if err := e.refuseUsers(ctx, id); err != nil {
		return err
	}
	if err := e.libpod.do(ctx, http.MethodPost, "containers/"+id+"/start", nil, nil, nil); err != nil {
		return e.Explain("starting container "+e.nameOf(ctx, id), err)
	}
	return nil
}

// Stop stops a container and waits until Podman has cleaned up.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	seconds := max(0, int(math.Ceil(grace.Seconds())))
	doing := func() string { return "stopping container " + e.nameOf(ctx, id) }
	stopping, cancel := context.WithTimeoutCause(ctx, time.Duration(seconds)*time.Second+containers.KillTime, containers.ErrNotKilled)
	defer cancel()
	cleaning, err := pending(id)
	closeAll(cleaning) // they only had to get the usual priority
	var c inspected
	if err == nil {
		c, err = e.inspect(stopping, id)
	}
	if err == nil && c.State.Status == "paused" {
		// Podman would refuse to stop it.
		err = e.libpod.do(stopping, http.MethodPost, "containers/"+id+"/unpause", nil, nil, nil)
	}
	for err == nil {
		query := url.Values{"timeout": {strconv.Itoa(seconds)}}
		if err = e.libpod.do(stopping, http.MethodPost, "containers/"+id+"/stop", query, nil, nil); err != nil {
			break
		}
		if c, err = e.inspect(stopping, id); err != nil {
			break
		}
		if c.state().Stopped() {
			return nil
		}
		// It exited by itself just before. Podman did nothing then, not even note that it is not
		// to be started again (pkg/api/handlers/compat/containers_stop.go). It has to run for that.
		select {
		case <-time.After(time.Millisecond):
		case <-stopping.Done():
			err = context.Cause(stopping)
		}
	}
	if errors.Is(context.Cause(stopping), containers.ErrNotKilled) && e.answers(ctx) {
		return fmt.Errorf("%s: %w", doing(), containers.ErrNotKilled)
	}
	return e.Explain(doing(), err)
}

// answers tells a Podman that cannot stop a container from one that hangs itself.
func (e *Engine) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return e.libpod.get(ctx, "_ping", nil, nil) == nil
}

// Update sets a container's name and restart policy. When it returns, nothing starts the container by
// the one before.
func (e *Engine) Update(ctx context.Context, id, name string, restart containers.Restart) error {
	doing := fmt.Sprintf("updating container %s to %s", id, name)
	c, err := e.inspect(ctx, id)
	if err == nil && c.Name != name {
		err = e.libpod.do(ctx, http.MethodPost, "containers/"+id+"/rename", url.Values{"name": {name}}, nil, nil)
	}
	if err == nil && c.policy() != restart {
		err = e.setPolicy(ctx, id, restart)
	}
	if err == nil && restart == containers.RestartNo {
		err = awaitPending(ctx, c.ID)
	}
	if err != nil {
		return e.Explain(doing, err)
	}
	return nil
}

// setPolicy sets a restart policy. Podman removes all limits that the request does not have
// (pkg/api/handlers/libpod/containers.go, UpdateContainer and parseRLimits).
func (e *Engine) setPolicy(ctx context.Context, id string, policy containers.Restart) error {
	var c inspected
	return docker.ChangePolicy(func() (int, bool, error) {
		var err error
		c, err = e.inspect(ctx, id)
		return c.State.Pid, c.policy() != containers.RestartNo, err
	}, func() error {
		return e.libpod.do(ctx, http.MethodPost, "containers/"+id+"/update", url.Values{"restartPolicy": {string(policy)}}, c.limits(), nil)
	})
}

// limits is the body of a request that leaves a container's limits as they are.
func (c inspected) limits() map[string][]ulimit {
	created, _ := c.created()
	all := []ulimit{}
	for _, u := range c.HostConfig.ulimits(created.Ulimits) {
		all = append(all, ulimit{Type: u.Name, Hard: u.Hard, Soft: u.Soft})
	}
	return map[string][]ulimit{"r_limits": all}
}

// Remove removes a stopped container and its anonymous volumes, which its image declares.
func (e *Engine) Remove(ctx context.Context, id string) error {
	if err := e.remove(ctx, id, false); err != nil {
		return e.Explain("removing container "+e.nameOf(ctx, id), err)
	}
	return nil
}

// nameOf returns the name of a container for an error, even if ctx has ended.
func (e *Engine) nameOf(ctx context.Context, id string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	c, err := e.inspect(ctx, id)
	if err != nil {
		return id
	}
	return c.Name
}
