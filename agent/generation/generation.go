// Package generation keeps the numbered, immutable records of a node's full
// state: every image by digest, every container's spec, every rendered file.
// What runs on a node is exactly one of them.
package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// Generation is a full node state. Number 0 is a node on which nothing runs.
type Generation struct {
	Number   int       `json:"number"`
	Created  time.Time `json:"created"`
	Reason   string    `json:"reason"` // bootstrap, upgrade, rollback to 3
	Version  string    `json:"kollet"` // of the kollet that made it
	Engine   string    `json:"engine"` // docker or containerd
	Services []Service `json:"services"`
}

// Service is one container of a generation, in start order.
type Service struct {
	Name  string `json:"name"`
	Ref   string `json:"ref"`   // image as the node file names it
	Image Image  `json:"image"` // what that meant when the generation was made

	Spec        containers.Spec       `json:"spec"`                  // less what depends on the generation's number
	User        string                `json:"user,omitempty"`        // that the service runs as, when not the image's
	Argv        []string              `json:"argv"`                  // the program, with its arguments
	Command     []string              `json:"command,omitempty"`     // for the start script of Kolla's images, which is Argv then
	Warmup      []string              `json:"warmup,omitempty"`      // run once while staged
	Files       []File                `json:"files,omitempty"`       // rendered, in the order they are applied
	Permissions []nodefile.Permission `json:"permissions,omitempty"` // owner and mode of other paths

	StopSignal      string           `json:"stop_signal"`
	StopGracePeriod time.Duration    `json:"stop_grace_period"`
	DependsOn       []string         `json:"depends_on,omitempty"`
	Group           string           `json:"group,omitempty"`
	Healthcheck     []nodefile.Probe `json:"healthcheck,omitempty"`
	Guests          *nodefile.Guests `json:"guests,omitempty"`

	// Origin is the generation whose directory the container mounts: this one,
	// or the earlier one in which the service last changed.
	Origin int `json:"origin"`
}

// Image is an image by content.
type Image struct {
	ID     string `json:"id"`
	Digest string `json:"digest,omitempty"` // repository@sha256:…; empty when it was never pulled
}

// Reference is what a container is created from.
func (i Image) Reference() string {
	if i.Digest != "" {
		return i.Digest
	}
	return i.ID
}

// File is a rendered file of a service.
type File struct {
	Name   string `json:"name"` // in the service's configuration directory
	Dest   string `json:"dest"` // in the container
	Owner  string `json:"owner"`
	Perm   string `json:"perm"`
	SHA256 string `json:"sha256"`
}

// Fingerprint is the same for two services whose containers would be the same:
// a service whose fingerprint did not change keeps its container. How health is
// probed or in which order services start is no part of it, nor by which name
// an image was called. What is not named here is, so that a field that is added
// counts.
func (s Service) Fingerprint() string {
	s.Spec = s.Spec.Canonical()
	s.Ref, s.Image.Digest, s.Origin = "", "", 0
	s.StopGracePeriod, s.DependsOn, s.Group, s.Healthcheck, s.Guests = 0, nil, "", nil, nil
	if len(s.Argv) == 0 {
		s.Argv = nil // an empty list and none are one, as in a record that was read back
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain data
	}
	return Sum(data)
}

// Sum is the SHA-256 of data, in hexadecimal.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Service finds a service by name.
func (g Generation) Service(name string) (Service, bool) {
	for _, s := range g.Services {
		if s.Name == name {
			return s, true
		}
	}
	return Service{}, false
}
