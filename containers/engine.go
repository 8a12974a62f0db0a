// Package containers says what kollet needs of a container engine, and nothing
// more: it knows images and containers, but no services, generations or
// upgrades. The packages below it put Docker and containerd behind Engine; the
// conformance package holds the one suite that each of them must pass.
package containers

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNotFound is returned, wrapped, when an image or a container does not exist.
var ErrNotFound = errors.New("not found")

// ErrUnreachable is returned, wrapped, when the engine does not answer or went
// away meanwhile: what was asked for may have happened or not.
var ErrUnreachable = errors.New("container engine cannot be reached")

// ErrRegistryUnreachable is returned, wrapped, by a pull that did not come as far
// as an answer of the registry. It is mostly the network that is missing.
var ErrRegistryUnreachable = errors.New("cannot be reached")

// Engine is a container engine on this machine. All methods are safe for
// concurrent use, honour their context, and return errors that say what was
// being done and to what. Identifiers of containers are the engine's own and
// never change, names do.
type Engine interface {
	// Info asks the engine who it is. It fails when the engine cannot be
	// reached; the error then names the address that was tried.
	Info(ctx context.Context) (Info, error)

	// Image looks an image up among those on this machine, by tag, digest or
	// id. It never contacts a registry. ErrNotFound when it is absent.
	Image(ctx context.Context, ref string) (Image, error)
	// Pull fetches an image from its registry. It contacts the registry even if
	// the image is present. Layers that are present are not fetched again.
	// progress, which may be nil, is called from one goroutine. ErrNotFound
	// when the registry answers that it has no such image or tag.
	Pull(ctx context.Context, ref string, progress func(Progress)) (Image, error)
	// Load takes all images from an archive, under the names that it gives them;
	// an image that has such a name already loses it. archive is a tar without
	// compression, as `docker save` writes it or, where the engine knows that,
	// an OCI image layout. No registry is contacted. An image that was loaded may
	// have no Digest, or one that no registry knows. What was loaded before an
	// error may stay.
	Load(ctx context.Context, archive io.Reader) error
	// RemoveImage drops an image by id with all its names. It is no error if
	// the image is gone; it is one if a container uses it, running or not, and
	// then nothing is dropped.
	RemoveImage(ctx context.Context, id string) error

	// Create makes a container from spec and returns its id; nothing runs yet.
	// A failed Create leaves nothing behind, unless the engine went away
	// (ErrUnreachable). The name must be free, the image present (else
	// ErrNotFound), and so must the sources of bind mounts.
	Create(ctx context.Context, spec Spec) (id string, err error)
	// Start runs a created or stopped container. It is no error if it runs.
	// A container that cannot start is kept, not running.
	Start(ctx context.Context, id string) error
	// Stop sends the stop signal, waits for grace (rounded up to whole seconds
	// where the engine counts so), kills, and returns when the container has
	// ended and the engine has cleaned up. The engine does not restart what was
	// stopped so; unless its policy is RestartAlways, not even when it is
	// restarted itself. It is no error if the container does not run.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Update sets a container's name and restart policy, running or not.
	// It does nothing where both already hold. It fails, and changes nothing,
	// when another container has the name.
	Update(ctx context.Context, id, name string, restart Restart) error
	// Remove deletes a container that does not run, with its writable layer but
	// without its named volumes. It is no error if it is gone.
	Remove(ctx context.Context, id string) error

	// Inspect tells all about one container. ErrNotFound when it is gone.
	Inspect(ctx context.Context, id string) (Container, error)
	// List inspects all containers, running or not, that carry every one of the
	// labels. A container that vanishes meanwhile is left out.
	List(ctx context.Context, labels map[string]string) ([]Container, error)

	// Exec runs a command inside a running container and returns its exit
	// status. An error means that it could not be run or was interrupted; when
	// the context ends, the command is killed.
	Exec(ctx context.Context, id string, cmd Exec) (status int, err error)
	// Logs copies what the container printed, standard output and error both,
	// to w. With Follow, the end of the context is no error.
	Logs(ctx context.Context, id string, opts LogOptions, w io.Writer) error

	// Close releases the connection.
	Close() error
}

// Info describes an engine.
type Info struct {
	Name        string `json:"name"`              // docker or containerd
	Version     string `json:"version"`           // the engine's own
	API         string `json:"api,omitempty"`     // the API version in use
	Address     string `json:"address"`           // of its socket
	Root        string `json:"root"`              // where it keeps its data on this machine
	Cgroups     string `json:"cgroups,omitempty"` // cgroup driver and version, such as "systemd, v2"
	LiveRestore bool   `json:"live_restore"`      // containers survive a restart of the engine
}

// Image is an image on this machine.
type Image struct {
	ID         string   `json:"id"`                    // content address of its configuration
	Digest     string   `json:"digest,omitempty"`      // repository@sha256:… it was pulled as, repository in full (docker.io/library/…); empty if it never was
	Size       int64    `json:"size"`                  // bytes, unpacked
	Entrypoint []string `json:"entrypoint"`            // as the image declares it
	Command    []string `json:"command"`               // likewise
	User       string   `json:"user,omitempty"`        // likewise; empty means root
	WorkingDir string   `json:"working_dir,omitempty"` // likewise
	Env        []string `json:"env,omitempty"`         // likewise, KEY=VALUE
	StopSignal string   `json:"stop_signal,omitempty"`
}

// Progress is one step of a pull. Totals grow while the engine learns of layers.
type Progress struct {
	Done, Total int64 // bytes fetched, of those known so far
	Status      string
}

// Restart says what the engine does with a container that ended by itself or
// whose engine restarted.
type Restart string

const (
	RestartNo            Restart = "no"
	RestartUnlessStopped Restart = "unless-stopped" // unless Stop ended it
	// RestartAlways on Docker also starts, when the engine itself starts, what
	// Stop ended; on containerd it is RestartUnlessStopped. Docker 20.10 takes a container that its own crash ended for one
	// that was stopped by hand, so that only this brings it back.
	RestartAlways Restart = "always"
)

// Spec is all that a container is made from.
type Spec struct {
	Name       string            `json:"name"`
	Image      string            `json:"image"` // digest or id, so that it means one thing for ever
	Labels     map[string]string `json:"labels,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`  // replaces the image's
	Command    []string          `json:"command,omitempty"`     // replaces the image's, which an Entrypoint alone drops
	WorkingDir string            `json:"working_dir,omitempty"` // empty: the image's
	User       string            `json:"user,omitempty"`        // empty: the image's
	Env        map[string]string `json:"env,omitempty"`         // over the image's

	Privileged bool     `json:"privileged,omitempty"`
	PID        string   `json:"pid,omitempty"`          // "host" or empty: its own
	Network    string   `json:"network_mode,omitempty"` // "host", "none" or empty: the engine's default
	IPC        string   `json:"ipc,omitempty"`          // "host" or empty: its own
	CgroupNS   string   `json:"cgroup,omitempty"`       // "host" or empty: its own where the kernel has cgroup v2
	ReadOnly   bool     `json:"read_only,omitempty"`
	CapAdd     []string `json:"cap_add,omitempty"` // such as NET_ADMIN
	CapDrop    []string `json:"cap_drop,omitempty"`
	Devices    []string `json:"devices,omitempty"` // paths on the host, the same inside
	Mounts     []Mount  `json:"volumes,omitempty"`
	Ulimits    []Ulimit `json:"ulimits,omitempty"`

	StopSignal string  `json:"stop_signal,omitempty"` // empty: the image's, else SIGTERM
	Restart    Restart `json:"restart"`
	LogSize    int64   `json:"log_size,omitempty"`  // bytes kept in one log file before it is rotated; 0: the engine's default
	LogFiles   int     `json:"log_files,omitempty"` // how many are kept
}

// Mount kinds.
const (
	Bind   = "bind"   // Source is a path on the host and must exist
	Volume = "volume" // Source is a volume's name; made when absent, with what the image has at Target; outlives containers
	Tmpfs  = "tmpfs"  // Source is empty
)

// Mount places something in a container's file system.
type Mount struct {
	Type        string `json:"type"`
	Source      string `json:"source,omitempty"`
	Target      string `json:"target"`
	ReadOnly    bool   `json:"read_only,omitempty"`
	Propagation string `json:"propagation,omitempty"` // of a bind: rprivate (default), rslave, rshared, or without the r
}

// Ulimit is a resource limit, named as in ulimit(1) and getrlimit(2): nofile,
// memlock, ….  -1 means unlimited.
type Ulimit struct {
	Name string `json:"name"`
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// State of a container.
type State string

const (
	StateCreated State = "created"
	StateRunning State = "running"
	StateExited  State = "exited"
	StateOther   State = "other" // restarting, paused, dead, …
)

// Container is a container as the engine has it now. Spec is read back from the
// engine, not remembered: fields that the engine fills in by itself (the
// image's environment, its default mounts, its default limits) are left out, so
// that it equals the Canonical form of the spec the container was created from
// (or updated to) unless somebody changed it.
type Container struct {
	ID       string
	ImageID  string // as Image.ID
	Spec     Spec
	State    State
	PID      int // of its first process, as this machine's root pid namespace counts; 0 unless running
	ExitCode int // of its last run
	Error    string
	Created  time.Time
	Started  time.Time
	Finished time.Time
}

// Exec is a command to run inside a container.
type Exec struct {
	Argv   []string
	User   string // empty: the container's
	Env    map[string]string
	Short  bool // it ends soon and prints little: its output may come when it has ended; without TTY and Stdin
	TTY    bool
	Stdin  io.Reader        // nil: none; with TTY its end is not passed on
	Stdout io.Writer        // nil: dropped
	Stderr io.Writer        // nil: dropped; unused with TTY
	Resize <-chan [2]uint16 // columns and rows of the terminal, with TTY
}

// LogOptions chooses what Logs copies.
type LogOptions struct {
	Tail       int       // last lines; 0: all
	Since      time.Time // zero: from the start
	Follow     bool      // go on until the container ends or the context does
	Timestamps bool
}
