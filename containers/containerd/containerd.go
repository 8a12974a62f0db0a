// Package containerd puts containerd, 1.6 or newer, behind containers.Engine.
// It is the only package that imports containerd's client.
//
// containerd knows less of containers than Docker does. What it does not keep,
// this package keeps in labels and below Config.Root:
//
//   - a container's id never changes; its name is the label org.kollet.name,
//     unique among kollet's containers because all changes hold one lock file,
//   - containerd forgets how a container ended once its task is deleted; the
//     label org.kollet.last remembers,
//   - containerd restarts containers with its restart monitor, which looks
//     every ten seconds; see restart.go for how a stop stays a stop,
//   - containerd's shims hand what a container prints to a program of the
//     client's choice; that is kollet itself, see logs.go,
//   - a named volume is the directory volumes/NAME.
//
// Networks are not containerd's business, and kollet needs none but the host's:
// "none" and the default are both a network namespace with a loopback device
// alone.
package containerd

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// Defaults.
const (
	DefaultAddress   = "/run/containerd/containerd.sock"
	DefaultNamespace = "kollet"
	DefaultCerts     = "/etc/containerd/certs.d" // as in containerd's own documentation, docs/hosts.md
)

const (
	snapshotter = "overlayfs"
	runtime     = "io.containerd.runc.v2"
)

// Config says which containerd to use, and how. Root must be set.
type Config struct {
	// Address is the path of the socket; unix:// before it, and
	// ?namespace=NAME after it, count. Empty: $CONTAINERD_ADDRESS, as for
	// containerd's own ctr, else DefaultAddress.
	Address string
	Root    string // directory for volumes, logs and locks, the same for every user of the namespace
	Certs   string // directory with the hosts.toml of registries; empty: DefaultCerts
	// Logger is the program that writes logs: it must call WriteLog when its
	// first argument is LogCommand. Empty: this program.
	Logger string
}

// Engine is a containerd on this machine.
type Engine struct {
	client    *client.Client
	errors    failure.Engine
	address   string
	namespace string
	root      string
	certs     string
	logger    string
	configs   sync.Map // of images, by id: ocispec.ImageConfig
}

var _ containers.Engine = (*Engine)(nil)

// New prepares to talk to containerd. It does not contact it: Info does.
func New(c Config) (*Engine, error) {
	e := &Engine{root: c.Root, certs: c.Certs, logger: c.Logger}
	var err error
	if e.address, e.namespace, err = parseAddress(c.Address); err != nil {
		return nil, err
	}
	if e.certs == "" {
		e.certs = DefaultCerts
	}
	e.errors = explainer(e.address, e.certs)
	if e.logger == "" {
		if e.logger, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("finding kollet's own program, which writes the logs of containers: %w", err)
		}
	}
	// As the client's own, but a containerd that was restarted is found soon.
	quick := grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second},
		MinConnectTimeout: 10 * time.Second,
	})
	e.client, err = client.New(e.address, client.WithDefaultNamespace(e.namespace), client.WithExtraDialOpts([]grpc.DialOption{
		quick, grpc.WithTransportCredentials(insecure.NewCredentials()),
	}))
	if err != nil {
		return nil, fmt.Errorf("containerd at %q: %w: expected an address such as %s", e.address, err, DefaultAddress)
	}
	return e, nil
}

func parseAddress(address string) (socket, namespace string, err error) {
	if address == "" {
		address = os.Getenv("CONTAINERD_ADDRESS")
	}
	if address == "" {
		address = DefaultAddress
	}
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "" && u.Scheme != "unix") || !path.IsAbs(u.Path) {
		return "", "", fmt.Errorf("containerd at %q: expected the path of a socket such as %s", address, DefaultAddress)
	}
	if namespace = u.Query().Get("namespace"); namespace == "" {
		namespace = DefaultNamespace
	}
	return u.Path, namespace, nil
}

// Close releases the connection.
func (e *Engine) Close() error { return e.client.Close() }

// in names the namespace, for those calls that the client's default does not
// reach.
func (e *Engine) in(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, e.namespace)
}

// Info asks containerd who it is.
func (e *Engine) Info(ctx context.Context) (containers.Info, error) {
	const doing = "asking containerd for its version"
	version, err := e.client.Version(ctx)
	if err != nil {
		return containers.Info{}, e.fail(doing, errgrpc.ToNative(err)) // which the client leaves to its caller here
	}
	if old := strings.TrimPrefix(version.Version, "v"); strings.HasPrefix(old, "0.") || oldest(old) {
		return containers.Info{}, fmt.Errorf("containerd %s at %s is too old, kollet needs 1.6: upgrade it", version.Version, e.address)
	}
	plugins, err := e.client.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1,id=="+snapshotter)
	if err != nil {
		return containers.Info{}, e.fail(doing, err)
	}
	info := containers.Info{Name: "containerd", Version: version.Version, Address: e.address, Cgroups: cgroups(), LiveRestore: true}
	for _, p := range plugins.Plugins {
		if p.InitErr != nil {
			return containers.Info{}, fmt.Errorf("containerd at %s has no snapshotter %s: %s: see its log", e.address, snapshotter, p.InitErr.Message)
		}
		// Each plugin has a directory of its own below containerd's root.
		info.Root = filepath.Dir(p.Exports["root"])
	}
	if info.Root == "" {
		return containers.Info{}, fmt.Errorf("containerd at %s has no snapshotter %s: enable it in /etc/containerd/config.toml", e.address, snapshotter)
	}
	return info, nil
}

// oldest tells a version before 1.6.
func oldest(version string) bool {
	for _, v := range []string{"1.0.", "1.1.", "1.2.", "1.3.", "1.4.", "1.5."} {
		if strings.HasPrefix(version, v) {
			return true
		}
	}
	return false
}

// cgroups is how containers get their cgroups: runc without its systemd option
// makes them itself.
func cgroups() string {
	if cgroupV2() {
		return "cgroupfs, v2"
	}
	return "cgroupfs, v1"
}

func cgroupV2() bool {
	unified, err := host.Real().CgroupV2()
	return err == nil && unified
}
