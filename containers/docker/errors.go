package docker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"

	"github.com/docker/docker/client"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers/failure"
)

// explainer returns the descriptions of Docker in errors and remedies.
func explainer(address string) failure.Engine {
	return failure.Engine{
		Name:    "docker",
		Address: address,
		Puller:  "docker",
		Start:   "start it (systemctl start docker), or set DOCKER_HOST if it listens elsewhere",
		Space:   "docker keeps its data (docker info, Docker Root Dir)",
		Caps: func() string {
			missing, _ := host.Real().MissingCapabilities() // then the remedy is more general
			return failure.RestrictedCaps("docker", missing)
		},
		AllowHTTP: func(registry string) string {
			return fmt.Sprintf("add \"insecure-registries\": [%q] to /etc/docker/daemon.json and reload docker (systemctl reload docker)", registry)
		},
		TrustCA: func(registry string) string {
			return fmt.Sprintf("install its CA as /etc/docker/certs.d/%s/ca.crt", registry)
		},
		Types: map[failure.Kind]func(error) bool{failure.Forbidden: isForbidden, failure.Unreachable: isUnreachable},
	}
}

func isForbidden(err error) bool {
	return client.IsErrConnectionFailed(err) && errors.Is(err, fs.ErrPermission)
}

// isUnreachable distinguishes an engine that does not run, or dies during the
// request, from one that answers with an error.
func isUnreachable(err error) bool {
	var network *net.OpError
	return client.IsErrConnectionFailed(err) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// fail explains an error that came while doing something.
func (e *Engine) fail(doing string, err error) error { return e.errors.Error(doing, err) }
