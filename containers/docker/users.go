package docker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/kollet/kollet/containers"
)

// usersTime is how long Docker may take to say what the files are.
const usersTime = 5 * time.Second

// refuseUsers refuses to start a container with files that Docker would wait for with the
// container's lock held. If it does not say what they are, the start may tell.
func (e *Engine) refuseUsers(ctx context.Context, id string) error {
	looking, cancel := context.WithTimeout(ctx, usersTime)
	defer cancel()
	c, err := e.client.ContainerInspect(looking, id)
	if err != nil || c.State.Running {
		return nil //nolint:nilerr // see above
	}
	for _, file := range containers.UsersFiles {
		err := e.checkUsers(looking, id, file)
		if err == nil {
			continue
		}
		err = fmt.Errorf("starting container %s: %w", strings.TrimPrefix(c.Name, "/"), err)
		if c.HostConfig.RestartPolicy.IsNone() {
			return err
		}
		// Docker would start it itself when it is restarted, and then answer nobody.
		policy := container.RestartPolicy{Name: container.RestartPolicyMode(containers.RestartNo)}
		if stays := e.setPolicy(ctx, id, policy); stays != nil {
			return fmt.Errorf("%w; remove it before docker is restarted: %w", err, stays)
		}
		return err
	}
	return nil
}

// checkUsers has Docker look at a file of a container, which opens nothing.
func (e *Engine) checkUsers(ctx context.Context, id, file string) error {
	at := file
	st, err := e.client.ContainerStatPath(ctx, id, at)
	if err == nil && st.LinkTarget != "" {
		at = st.LinkTarget
		st, err = e.client.ContainerStatPath(ctx, id, at)
	}
	if err != nil {
		st = container.PathStat{}
	}
	return containers.CheckUsers(file, at, st.Mode, st.Size)
}
