// Package generation stores generations: numbered, immutable records of a node's
// full state, with every image by digest, every container's settings and every
// rendered file. A node runs exactly one of them.
package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// Generation is a full node state. Number 0 is a node without services, or what ran before kollet
// took the node over.
type Generation struct {
	Number   int       `json:"number"`
	Created  time.Time `json:"created"`
	Reason   string    `json:"reason"` // bootstrap, upgrade, rollback to 3
	Version  string    `json:"kollet"` // of the kollet that created it
	Engine   string    `json:"engine"` // docker, containerd or podman
	Services []Service `json:"services"`

	// Hotfix is what operators gave instead of the node file's images, in this upgrade or
	// in an earlier one.
	Hotfix nodefile.Hotfix `json:"hotfix,omitzero"`
}

// Service is one container of a generation, in start order.
type Service struct {
	Name  string `json:"name"`
	Ref   string `json:"ref"`   // the image's name, as the operator gave it
	Image Image  `json:"image"` // what Ref resolved to when the generation was created

	// InsteadOf is the image's name in the node file if the generation's Hotfix gives
	// another one.
	InsteadOf string `json:"instead_of,omitempty"`

	Spec        containers.Spec       `json:"spec"`                  // without what depends on the generation's number
	User        string                `json:"user,omitempty"`        // that the service runs as; empty: the image's
	Argv        []string              `json:"argv"`                  // the program, with its arguments
	Command     []string              `json:"command,omitempty"`     // for the start script of Kolla's images, which then is Argv
	Preload     *nodefile.Preload     `json:"preload,omitempty"`     // imported while staged
	Warmup      []string              `json:"warmup,omitempty"`      // run once while staged
	Files       []File                `json:"files,omitempty"`       // rendered, in the order they are applied
	Permissions []nodefile.Permission `json:"permissions,omitempty"` // owner and mode of other paths

	StopSignal      string        `json:"stop_signal"`
	StopGracePeriod time.Duration `json:"stop_grace_period"`
	DependsOn       []string      `json:"depends_on,omitempty"`
	Group           string        `json:"group,omitempty"`

	ReplaceWithDependencies bool `json:"replace_with_dependencies,omitempty"`

	Healthcheck []nodefile.Probe `json:"healthcheck,omitempty"`
	Requires    []nodefile.Probe `json:"requires,omitempty"`
	Guests      *nodefile.Guests `json:"guests,omitempty"`

	ListedAs *nodefile.ListedAs `json:"listed_as,omitempty"` // by Nova or Neutron
	Problems []string           `json:"problems,omitempty"`  // command that prints what is wrong with what the service provides
	Version  []string           `json:"version,omitempty"`   // command that prints Nova's version, to which the stop grace period is fitted

	// Origin is the generation that created the service's container: this one, or
	// the earlier one in which the service last changed.
	Origin int `json:"origin"`
}

// Image identifies an image by its content.
type Image struct {
	ID     string `json:"id"`
	Digest string `json:"digest,omitempty"` // repository@sha256:…; empty if the image was not pulled
}

// Reference is the image name that a container is created from.
func (i Image) Reference() string {
	if i.Digest != "" {
		return i.Digest
	}
	return i.ID
}

// File is a rendered file of a service. A directory is followed by the files in it, which
// are Parts.
type File struct {
	Name   string `json:"name"` // in the service's configuration directory
	Dest   string `json:"dest"` // in the container
	Owner  string `json:"owner"`
	Perm   string `json:"perm"`
	SHA256 string `json:"sha256"` // with the node's key: of what the file holds, or of the link's target; empty for a directory

	Directory bool   `json:"directory,omitempty"`
	Link      string `json:"link,omitempty"` // target of a symbolic link
	Part      bool   `json:"part,omitempty"` // it is copied with the directory that it is in
	Merge     bool   `json:"merge,omitempty"`
	// Preserve: the file in the generation has its owner, as UID:GID, its mode and its time.
	Preserve bool `json:"preserve_properties,omitempty"`
}

// Fingerprint returns a hash of what a service's container is created from. A
// service keeps its container as long as the fingerprint stays the same. Probes,
// start order and the image's name are not part of it. Every field that is not
// cleared here is, so a new field counts by default.
func (s Service) Fingerprint() string {
	s.Spec = s.Spec.Canonical()
	s.Ref, s.InsteadOf, s.Image.Digest, s.Origin = "", "", "", 0
	s.StopGracePeriod, s.DependsOn, s.Group, s.Healthcheck, s.Requires, s.Guests = 0, nil, "", nil, nil, nil
	s.ListedAs, s.Problems, s.Version, s.ReplaceWithDependencies = nil, nil, nil, false
	if len(s.Argv) == 0 {
		s.Argv = nil // JSON does not distinguish an empty list from none
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain data
	}
	return Sum(data)
}

// Sum returns the SHA-256 of data in hexadecimal.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Adopted reports whether its services are containers that kolla-ansible created: those of
// generation 0, which run before the node is taken over, and after it is given back.
func (g Generation) Adopted() bool {
	return slices.ContainsFunc(g.Services, func(s Service) bool { return s.Origin == 0 })
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
