// Package podman implements containers.Engine for Podman 5.1 and newer, as root.
//
// Podman has two APIs at one socket. Docker's serves images, commands, logs and starts, for which
// this package embeds Docker's engine. Podman's own, libpod, serves what Docker's does not tell or
// cannot do: creating and reading back containers, their restart policy, and stopping them.
package podman

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/docker"
	"github.com/kollet/kollet/containers/failure"
)

// DefaultAddress is the socket of podman.socket for root.
const DefaultAddress = "unix:///run/podman/podman.sock"

// hostVariable is what the podman command reads its socket's address from.
const hostVariable = "CONTAINER_HOST"

// Engine is a Podman service on this host.
type Engine struct {
	*docker.Engine // what Podman serves through Docker's API
	libpod         client

	mutex sync.Mutex
	asked *question // for its settings
}

var _ containers.Engine = (*Engine)(nil)

// New returns a client of the service at address, unix:///run/podman/podman.sock or the path of
// a socket. If address is empty, New uses $CONTAINER_HOST, then root's default socket. New does
// not contact the service; Info does.
func New(address string) (*Engine, error) {
	address = cmp.Or(address, os.Getenv(hostVariable), DefaultAddress)
	if path.IsAbs(address) {
		address = "unix://" + address
	}
	socket, local := strings.CutPrefix(address, "unix://")
	if !local || !path.IsAbs(socket) {
		return nil, fmt.Errorf("podman at %q: expected the address of a socket on this host, such as %s", address, DefaultAddress)
	}
	compatible, err := docker.Compatible(address, dialect)
	if err != nil {
		return nil, err
	}
	return &Engine{Engine: compatible, libpod: newClient(socket)}, nil
}

// dialect is how Podman differs from Docker in what it serves for it.
var dialect = docker.Dialect{
	Description: description(),
	// libpod/oci_conmon_common.go, hijackWriteError; libpod/define/errors.go
	Refusal:         "Error: ",
	Refusals:        []string{"OCI runtime", "OCI permission denied", "unable to find user", "unable to find group"},
	RefusesOnStderr: true,
	OnlyDownloads:   true, // pkg/api/handlers/utils/images.go, CompatPull
	LosesSizes:      true,
}

// description describes Podman in errors and remedies.
func description() failure.Engine {
	return failure.Engine{
		Name:   "podman",
		Puller: "podman",
		Start:  "start its socket (systemctl start podman.socket), or set CONTAINER_HOST if it listens elsewhere",
		Space:  "podman keeps its data (podman info, graphRoot)",
		Caps: func() string {
			missing, _ := host.Real().MissingCapabilities() // then the remedy is more general
			return failure.RestrictedCaps("podman", missing)
		},
		AllowHTTP: func(registry string) string {
			return fmt.Sprintf("add [[registry]] with location = %q and insecure = true to /etc/containers/registries.conf", registry)
		},
		TrustCA: func(registry string) string {
			return fmt.Sprintf("install its CA as /etc/containers/certs.d/%s/ca.crt", registry)
		},
	}
}

// Close releases the connections.
func (e *Engine) Close() error {
	e.libpod.http.CloseIdleConnections()
	return e.Engine.Close()
}
