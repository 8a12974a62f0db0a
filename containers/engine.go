// Package containers declares what kollet needs from a container engine, and
// nothing more: images and containers, but no services, generations or upgrades.
// The packages below it implement Engine for Docker, containerd and Podman; package
// conformance is the test suite that all must pass.
package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrNotFound is returned, wrapped, when an image or a container does not exist.
var ErrNotFound = errors.New("not found")

// ErrUnreachable is returned, wrapped, when the engine does not answer or stops
// during a request: what was requested may or may not have happened.
var ErrUnreachable = errors.New("container engine cannot be reached")

// ErrRegistryUnreachable is returned, wrapped, by a pull that got no answer from
// the registry, usually because the network is not up.
var ErrRegistryUnreachable = errors.New("cannot be reached")

// ErrTooMuchOutput is returned, wrapped, when a short command printed more than
// MostOutput.
var ErrTooMuchOutput = fmt.Errorf("it printed more than %d bytes", MostOutput)

// Engine is a container engine on this host. All methods are safe for concurrent
// use, honour their context, and return errors of one line that say what was
// being done and to what; errors.Is finds the cause. A container's id is chosen
// by the engine and never changes; its name may change.
type Engine interface {
	// Info returns the engine's version and settings. If the engine cannot be
	// reached, the error is ErrUnreachable and names the address.
	Info(ctx context.Context) (Info, error)

	// Image looks up an image on this host by tag, digest or id. It never
	// contacts a registry. ErrNotFound if the image is absent.
	Image(ctx context.Context, ref string) (Image, error)
	// Pull fetches an image from its registry, and contacts the registry even
	// if the image is present. Layers that are present are not fetched again.
	// progress may be nil; it is called from one goroutine. ErrNotFound if the
	// registry has no such image or tag.
	Pull(ctx context.Context, ref string, progress func(Progress)) (Image, error)
	// Load imports all images of an archive under the names in the archive; an
	// image that already has such a name loses it. archive is an uncompressed
	// tar in the format of `docker save` or, if the engine supports it, an OCI
	// image layout. No registry is contacted. A loaded image may have no Digest,
	// or one that no registry has. After an error, some of the images may be
	// loaded.
	Load(ctx context.Context, archive io.Reader) error
	// RemoveImage removes an image by id, with all its names. It does nothing
	// if the image is absent. It fails, and removes nothing, if a container
	// uses the image, running or not.
	RemoveImage(ctx context.Context, id string) error

	// Create creates a container from spec, without starting it, and returns
	// its id. A failed Create leaves nothing behind, except after
	// ErrUnreachable. The name must not be in use, and the image (otherwise
	// ErrNotFound) and the sources of bind mounts must exist. A dimension that
	// this host cannot limit is an error, of Create or of Start.
	Create(ctx context.Context, spec Spec) (id string, err error)
	// Start starts a created or stopped container. It does nothing if the
	// container is running. A container that cannot be started is kept.
	Start(ctx context.Context, id string) error
	// Stop sends the stop signal, waits for grace (which engines may round up
	// to whole seconds), kills what still runs, and returns when the container
	// has exited and the engine has cleaned up. It fails if that takes longer than
	// KillTime: no signal ends a process that hangs in the kernel. The engine does not start a
	// stopped container again; with RestartAlways it may when it is restarted
	// itself. A paused container gets the stop signal too, and continues. Stop
	// does nothing if the container is not running.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Update sets a container's name and restart policy, running or not.
	// It does nothing if both are set already. It fails, and changes nothing,
	// if another container has the name.
	Update(ctx context.Context, id, name string, restart Restart) error
	// Remove removes a stopped container and its writable layer, but not its
	// named volumes. It does nothing if the container is absent.
	Remove(ctx context.Context, id string) error

	// Inspect returns a container by its full id or its name. ErrNotFound if it
	// is absent.
	Inspect(ctx context.Context, id string) (Container, error)
	// List returns all containers, running or not, that have every one of the
	// labels. A container that is removed meanwhile is left out.
	List(ctx context.Context, labels map[string]string) ([]Container, error)

	// Exec runs a command inside a running container and returns its exit
	// status. An error means that the command could not be run or was
	// interrupted: it is killed when the context ends.
	Exec(ctx context.Context, id string, cmd Exec) (status int, err error)
	// Logs copies the container's standard output and standard error to w. With
	// Follow, it returns nil when the context ends.
	Logs(ctx context.Context, id string, opts LogOptions, w io.Writer) error

	// Close releases the connection.
	Close() error
}

// KillTime is how long an engine may take to kill a container and to clean up after it.
const KillTime = 20 * time.Second

// ErrNotKilled is returned, wrapped, when a container was killed and did not exit.
var ErrNotKilled = fmt.Errorf("it was killed and has not exited within %v: it hangs in the kernel, for example on a file system that does not answer; end what it waits for, or restart the machine", KillTime)

// Info describes an engine.
type Info struct {
	Name        string `json:"name"`              // docker, containerd or podman
	Version     string `json:"version"`           // of the engine
	API         string `json:"api,omitempty"`     // the API version in use
	Address     string `json:"address"`           // of its socket
	Root        string `json:"root"`              // its data directory on this host
	Cgroups     string `json:"cgroups,omitempty"` // cgroup driver and version, such as "systemd, v2"
	Images      string `json:"images,omitempty"`  // Docker's image store if it is not its own: containerd
	LiveRestore bool   `json:"live_restore"`      // containers keep running while the engine is restarted
}

// Image is an image on this host.
type Image struct {
	ID         string   `json:"id"`               // digest of its configuration; with Docker's image store of containerd, of its manifest or index
	Digest     string   `json:"digest,omitempty"` // repository@sha256:… with the full repository (docker.io/library/…); empty if it was never pulled
	Size       int64    `json:"size"`             // bytes, unpacked
	Entrypoint []string `json:"entrypoint"`       // the fields from here on are as the image declares them
	Command    []string `json:"command"`
	User       string   `json:"user,omitempty"` // empty: root
	WorkingDir string   `json:"working_dir,omitempty"`
	Env        []string `json:"env,omitempty"` // KEY=VALUE
	StopSignal string   `json:"stop_signal,omitempty"`
}

// Progress is the state of a pull. Total is 0 as long as it is not known, and may grow.
type Progress struct {
	Done, Total int64 // bytes
	Status      string
}

// Restart is a restart policy: what the engine does with a container that exited
// by itself, or when the engine itself is restarted.
type Restart string

const (
	RestartNo            Restart = "no"
	RestartUnlessStopped Restart = "unless-stopped" // unless Stop stopped it
	// RestartAlways makes Docker also start, when it starts itself, what Stop
	// stopped; on containerd it is the same as RestartUnlessStopped. Docker
	// 20.10 mistakes a container that died with the engine for one that was
	// stopped, and only this policy restarts it.
	RestartAlways Restart = "always"
)

// Spec is everything that a container is created from.
type Spec struct {
	Name       string            `json:"name"`
	Image      string            `json:"image"` // by digest or id, so that it cannot change its meaning
	Labels     map[string]string `json:"labels,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`  // replaces the image's
	Command    []string          `json:"command,omitempty"`     // replaces the image's, which Entrypoint also resets
	WorkingDir string            `json:"working_dir,omitempty"` // empty: the image's
	User       string            `json:"user,omitempty"`        // empty: the image's
	Env        map[string]string `json:"environment,omitempty"` // added to the image's

	Privileged  bool     `json:"privileged,omitempty"`
	PID         string   `json:"pid,omitempty"`          // "host" or empty: its own
	NetworkMode string   `json:"network_mode,omitempty"` // "host", "none" or empty: the engine's default
	IPC         string   `json:"ipc,omitempty"`          // "host" or empty: its own
	Cgroup      string   `json:"cgroup,omitempty"`       // "host" or empty: its own on hosts with cgroup v2
	ReadOnly    bool     `json:"read_only,omitempty"`
	CapAdd      []string `json:"cap_add,omitempty"` // such as NET_ADMIN
	CapDrop     []string `json:"cap_drop,omitempty"`
	Devices     []string `json:"devices,omitempty"` // paths, the same on the host and in the container
	Mounts      []Mount  `json:"volumes,omitempty"`
	Ulimits     []Ulimit `json:"ulimits,omitempty"`

	Dimensions Dimensions `json:"dimensions,omitzero"`
	Security   Security   `json:"security_opt,omitzero"`

	Healthcheck Healthcheck `json:"engine_healthcheck,omitzero"`

	StopSignal string  `json:"stop_signal,omitempty"` // empty: the image's, else SIGTERM
	Restart    Restart `json:"restart"`
	LogSize    int64   `json:"log_size,omitempty"`  // bytes in a log file before it is rotated; 0: the engine's default
	LogFiles   int     `json:"log_files,omitempty"` // how many log files are kept
}

// Types of mounts.
const (
	Bind   = "bind"   // Source is a path on the host, which must exist
	Volume = "volume" // Source is a volume's name; created if absent, with the image's content at Target; outlives containers
	Tmpfs  = "tmpfs"  // Source is empty
)

// Mount is a bind mount, a volume or a tmpfs in a container.
type Mount struct {
	Type        string `json:"type"`
	Source      string `json:"source,omitempty"`
	Target      string `json:"target"`
	ReadOnly    bool   `json:"read_only,omitempty"`
	Propagation string `json:"propagation,omitempty"` // of a bind mount: rprivate (default), rslave, rshared, or without the r
	Size        int64  `json:"size,omitempty"`        // of a tmpfs, in bytes; 0: the kernel's default, half of the memory
	Mode        string `json:"mode,omitempty"`        // of a tmpfs, such as 0755; empty: that of the image's directory, else 1777
}

// Ulimit is a resource limit, with the name from getrlimit(2) in lower case, such
// as nofile or memlock. -1 means unlimited.
type Ulimit struct {
	Name string `json:"name"`
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// State is the state of a container.
type State string

const (
	StateCreated    State = "created"
	StateRunning    State = "running"
	StateExited     State = "exited"
	StateRestarting State = "restarting" // exited by itself, and the engine will start it again
	StatePaused     State = "paused"     // its processes are frozen
	StateRemoving   State = "removing"   // is being removed, or a removal failed halfway: it cannot be started
	StateOther      State = "other"
)

// Stopped reports whether a container has no process and the engine will not start
// one by itself, unless it is restarted itself.
func (s State) Stopped() bool {
	return s == StateCreated || s == StateExited || s == StateRemoving
}

// Container is a container as the engine has it now. Spec is read back from the
// engine, without what the engine adds (the image's environment, default mounts,
// default limits): it equals the Canonical form of the spec that the container
// was created from, with the name and policy of the last Update, unless the
// container was changed manually.
type Container struct {
	ID        string
	ImageID   string // as Image.ID
	Spec      Spec
	State     State
	PID       int    // of its first process, in the host's pid namespace; 0 unless running or paused
	ExitCode  int    // of its last run; 0 while it runs or is being started again
	Restarts  int    // how often the engine started it again after it had exited by itself, since Start and since the machine booted
	NoRestart string // why the engine could not do so now, although it should; empty if it could
	Error     string
	Created   time.Time
	Started   time.Time
	Finished  time.Time

	// Of a container that kollet did not create, if the engine can tell: what no Spec has.
	Extra     []string // settings, such as hostname
	Anonymous []string // where it has volumes without a name
	Unhealthy bool     // its own health check says so
}

// AutoRemove is the extra setting of a container that its engine removes as soon as it has
// exited.
const AutoRemove = "rm"

// Condition is the state of a container and, if its last run ended, with which exit status.
// One that is paused or was never started has none.
func (c Container) Condition() string {
	if c.State == StateExited || c.State == StateRestarting && c.ExitCode != 0 {
		return fmt.Sprintf("%s, with exit status %d", c.State, c.ExitCode)
	}
	return string(c.State)
}

// Exec is a command to run inside a container.
type Exec struct {
	Argv   []string
	User   string // empty: the container's
	Env    map[string]string
	Short  bool // ends soon and prints little: output may be delivered at the end, see MostOutput; not with TTY or Stdin
	TTY    bool
	Stdin  io.Reader        // nil: none; with TTY, end of file is not passed on
	Stdout io.Writer        // nil: discarded
	Stderr io.Writer        // nil: discarded; unused with TTY
	Resize <-chan [2]uint16 // columns and rows of the terminal, with TTY
}

// MostOutput is how many bytes a short command may print. If it prints more, it is
// killed, and Exec fails with ErrTooMuchOutput: what it prints is kept in memory.
const MostOutput = 1 << 20

// LogOptions selects what Logs copies.
type LogOptions struct {
	Tail       int       // number of last lines; 0: all
	Since      time.Time // zero: from the start
	Follow     bool      // continue until the container exits or the context ends
	Timestamps bool
}
