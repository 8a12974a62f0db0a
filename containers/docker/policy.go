package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// fromPolicy returns a restart policy as the docker command has it: on-failure:3, with how often
// the engine tries. Only containers that kollet did not create have that.
func fromPolicy(p container.RestartPolicy) containers.Restart {
	if p.MaximumRetryCount > 0 {
		return containers.Restart(fmt.Sprintf("%s:%d", p.Name, p.MaximumRetryCount))
	}
	return containers.Restart(p.Name)
}

// toPolicy is the inverse of fromPolicy.
func toPolicy(r containers.Restart) container.RestartPolicy {
	name, tries, _ := strings.Cut(string(r), ":")
	count, _ := strconv.Atoi(tries) // 0: as often as it fails
	return container.RestartPolicy{Name: container.RestartPolicyMode(name), MaximumRetryCount: count}
}

// setPolicy sets a container's restart policy.
func (e *Engine) setPolicy(ctx context.Context, id string, policy container.RestartPolicy) error {
	return ChangePolicy(func() (int, bool, error) {
		c, err := e.client.ContainerInspect(ctx, id)
		if err != nil {
			return 0, false, err
		}
		return c.State.Pid, c.State.Running || c.State.Restarting, nil
	}, func() error {
		_, err := e.client.ContainerUpdate(ctx, id, container.UpdateConfig{RestartPolicy: policy})
		return err
	})
}

// noticeTime is how long the engine may take to notice that a process exited.
const noticeTime = containers.KillTime

// ChangePolicy changes a container's restart policy. The engine also has the runtime update the
// cgroup, which fails for a process that has exited until the engine has noticed; a service
// that crashes repeatedly exits at any moment. What the error says then depends on where the
// exit is noticed, so the process decides whether to try again. look returns the container's
// first process, and whether the engine takes the container for one that runs or starts it again.
func ChangePolicy(look func() (pid int, runs bool, err error), change func() error) error {
	for until := time.Now().Add(noticeTime); ; time.Sleep(10 * time.Millisecond) {
		pid, runs, err := look()
		if err != nil {
			return err
		}
		first, err := host.Open(pid)
		if err != nil && !errors.Is(err, host.ErrExited) {
			return err
		}
		err = change()
		exits := runs && hasExited(first)
		first.Close()
		if err == nil || !exits || time.Now().After(until) {
			return err
		}
	}
}

// hasExited reports whether a process has exited; nil has.
func hasExited(p *host.Process) bool {
	exited, err := p.Exited(0)
	return err == nil && exited
}
