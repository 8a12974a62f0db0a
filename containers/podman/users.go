package podman

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/kollet/kollet/containers"
)

// usersTime is how long Podman may take to say what the files are.
const usersTime = 5 * time.Second

// refuseUsers refuses to start a container with files that Podman would wait for with the
// container's lock held. If it does not say what they are, the start may tell.
func (e *Engine) refuseUsers(ctx context.Context, id string) error {
	looking, cancel := context.WithTimeout(ctx, usersTime)
	defer cancel()
	c, err := e.inspect(looking, id)
	if err != nil || c.state() == containers.StateRunning {
		return nil //nolint:nilerr // see above
	}
	for _, file := range containers.UsersFiles {
		err := e.checkUsers(looking, id, file)
		if err == nil {
			continue
		}
		err = fmt.Errorf("starting container %s: %w", c.Name, err)
		if c.policy() == containers.RestartNo {
			return err
		}
		// It would be started at the next boot, too.
		if stays := e.setPolicy(ctx, id, containers.RestartNo); stays != nil {
			return fmt.Errorf("%w; remove it before the machine is restarted: %w", err, stays)
		}
		return err
	}
	return nil
}

// checkUsers has Podman look at a file of a container, which opens nothing.
func (e *Engine) checkUsers(ctx context.Context, id, file string) error {
	at, mode, size := e.stat(ctx, id, file)
	if at != file && at != "" {
		_, mode, size = e.stat(ctx, id, at)
		return containers.CheckUsers(file, at, mode, size)
	}
	return containers.CheckUsers(file, file, mode, size)
}

// stat returns where a file of a container is, if links lead there, and what it is. Podman says
// where a link leads even if nothing is there.
func (e *Engine) stat(ctx context.Context, id, file string) (at string, mode fs.FileMode, size int64) {
	request, err := e.libpod.request(ctx, http.MethodHead, "containers/"+id+"/archive", url.Values{"path": {file}}, nil)
	if err != nil {
		return "", 0, 0
	}
	response, err := e.libpod.send(request)
	if err != nil {
		return "", 0, 0
	}
	response.Body.Close()
	var found struct {
		Mode       fs.FileMode `json:"mode"`
		Size       int64       `json:"size"`
		LinkTarget string      `json:"linkTarget"`
	}
	text, err := base64.StdEncoding.DecodeString(response.Header.Get("X-Docker-Container-Path-Stat"))
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		return "", 0, 0
	}
	if response.StatusCode != http.StatusOK {
		return found.LinkTarget, 0, 0
	}
	return found.LinkTarget, found.Mode, found.Size
}
