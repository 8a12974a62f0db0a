// Package containerd implements containers.Engine for containerd 1.6 and newer. It
// is the only package that imports containerd's client.
//
// containerd stores less about containers than Docker. This package stores the
// rest in labels and below Config.Root:
//
//   - a container's id never changes; its name is the label org.kollet.name,
//     which is unique among kollet's containers because every change holds one
//     lock file,
//   - containerd drops the exit status of a container when its task is deleted;
//     the label org.kollet.last-run keeps it,
//   - containerd restarts containers with its restart monitor, which polls every
//     ten seconds; restart.go explains how a stopped container stays stopped,
//   - containerd's shims pass the output of a container to a program that the
//     client chooses, which is kollet; see logs.go,
//   - a named volume is the directory volumes/NAME.
//
// containerd does not set up networks, and kollet needs only the host's: "none"
// and the default are both a network namespace with only a loopback device.
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
	DefaultCerts     = "/etc/containerd/certs.d" // as in containerd's documentation, docs/hosts.md
)

const (
	snapshotter = "overlayfs"
	runtime     = "io.containerd.runc.v2"
)

// Config selects a containerd and its directories. Root must be set.
type Config struct {
	// Address is the path of the socket, optionally with unix:// before it and
	// ?namespace=NAME after it. Empty: $CONTAINERD_ADDRESS, as for containerd's
	// ctr, else DefaultAddress.
	Address string
	Root    string // directory of volumes, logs and locks; the same for all users of the namespace
	Certs   string // directory of the registries' hosts.toml; empty: DefaultCerts
	// Logger is the path of the program that writes logs: it must call WriteLog
	// if its first argument is LogCommand. Empty: this program.
	Logger string
}

// Engine is a containerd on this host.
type Engine struct {
	client    *client.Client
	errors    failure.Engine
	address   string
	namespace string
	root      string
	certs     string
	logger    string
	configs   sync.Map // of images, by id: ocispec.Image
}

var _ containers.Engine = (*Engine)(nil)

// New returns a client of containerd. It does not contact containerd; Info does.
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
			return nil, fmt.Errorf("finding kollet's executable, which writes the logs of containers: %w", err)
		}
	}
	// As the client's defaults, but with shorter delays, so that a restarted
	// containerd is found quickly.
	quick := grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second},
		MinConnectTimeout: 10 * time.Second,
	})
	e.client, err = client.New(e.address, client.WithDefaultNamespace(e.namespace), client.WithExtraDialOpts([]grpc.DialOption{
		quick, grpc.WithTransportCredentials(insecure.NewCredentials()),
	}))
	if err != nil {
		return nil, fmt.Errorf("containerd at %q: %w; expected an address such as %s", e.address, err, DefaultAddress)
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
		return "", "", fmt.Errorf("containerd at %q: not the path of a socket; expected an address such as %s", address, DefaultAddress)
	}
	if namespace = u.Query().Get("namespace"); namespace == "" {
		namespace = DefaultNamespace
	}
	return u.Path, namespace, nil
}

// Close releases the connection.
func (e *Engine) Close() error { return e.client.Close() }

// in adds the namespace, for calls to which the client does not add its default.
func (e *Engine) in(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, e.namespace)
}

// Info returns containerd's version and settings.
func (e *Engine) Info(ctx context.Context) (containers.Info, error) {
	const doing = "asking containerd for its version"
	version, err := e.client.Version(ctx)
	if err != nil {
		return containers.Info{}, e.fail(doing, errgrpc.ToNative(err)) // the client does not convert errors of this call
	}
	if tooOld(strings.TrimPrefix(version.Version, "v")) {
		return containers.Info{}, fmt.Errorf("containerd %s at %s is too old; upgrade it to 1.6 or newer", version.Version, e.address)
	}
	plugins, err := e.client.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1,id=="+snapshotter)
	if err != nil {
		return containers.Info{}, e.fail(doing, err)
	}
	info := containers.Info{Name: "containerd", Version: version.Version, Address: e.address, Cgroups: cgroups(), LiveRestore: true}
	for _, p := range plugins.Plugins {
		if p.InitErr != nil {
			return containers.Info{}, fmt.Errorf("containerd at %s: snapshotter %s failed to load: %s; see containerd's log", e.address, snapshotter, p.InitErr.Message)
		}
		// Each plugin has its own directory below containerd's root.
		info.Root = filepath.Dir(p.Exports["root"])
	}
	if info.Root == "" {
		return containers.Info{}, fmt.Errorf("containerd at %s has no snapshotter %s; enable it in /etc/containerd/config.toml", e.address, snapshotter)
	}
	return info, nil
}

// tooOld reports whether a version is older than 1.6.
func tooOld(version string) bool {
	for _, v := range []string{"0.", "1.0.", "1.1.", "1.2.", "1.3.", "1.4.", "1.5."} {
		if strings.HasPrefix(version, v) {
			return true
		}
	}
	return false
}

// cgroups returns how containers get their cgroups: without its systemd option,
// runc creates them itself.
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
