// Package guest finds the QEMU processes that belong to a node's libvirt and
// keeps them alive while its container is replaced. In the same way it finds
// containers of the node that its engine does not list. It reads /proc and the
// cgroup hierarchies and asks neither engine nor libvirt, so it also works
// while both are down.
package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/host"
)

// Guest is a QEMU process that a container of this node started.
type Guest struct {
	Name       string `json:"name"`
	UUID       string `json:"uuid"`
	PID        int    `json:"pid"`
	Start      uint64 `json:"start"`      // clock ticks after boot, proc_pid_stat(5) field 22
	Generation int    `json:"generation"` // whose container started it
	Service    string `json:"service"`    // whose container started it
}

// The canary is a guest that kollet itself starts, to see whether a libvirt can. It
// is none of the node's guests: it is not protected, and ends with kollet's test.
const (
	CanaryName = "kollet-canary"
	CanaryUUID = "6b6f6c6c-6574-4000-8000-63616e617279" // "kollet" and "canary" in hexadecimal
)

func (g Guest) canary() bool { return g.Name == CanaryName && g.UUID == CanaryUUID }

// Known reports whether it is known which service of this node started the guest.
func (g Guest) Known() bool { return g.Service != "" }

// Same reports whether both are the same process, not merely the same number.
func (g Guest) Same(other Guest) bool { return g.PID == other.PID && g.Start == other.Start }

// Finder finds guests.
type Finder struct {
	Host        host.Host
	Generations string // directory of the node's generations

	// Hosts reports whether a service of a generation may start guests; nil: each may.
	Hosts func(generation int, service string) bool

	Adopted Adopted
}

// Adopted are the containers of generation 0. It was kolla-ansible that created them, so they have no
// gate.
type Adopted struct {
	Services  map[string]string // by the id of the container
	Libvirt   string            // the service that starts guests; empty: none does
	Directory string            // in which Docker has a directory of each container's, named after its id
}

// Find returns the guests of this node, sorted by name. A guest is recognised by
// its root file system: that of the container that started it, in which the gate
// directory of a generation of this node is mounted. This does not change when
// the guest is moved to another cgroup or its container is stopped, and says what it
// was also when the generation is gone.
func (f Finder) Find() ([]Guest, error) {
	pids, err := f.Host.Processes()
	if err != nil {
		return nil, fmt.Errorf("find guests: %w", err)
	}
	guests, err := f.Among(pids)
	slices.SortFunc(guests, func(a, b Guest) int {
		return strings.Compare(a.Name+a.UUID, b.Name+b.UUID)
	})
	return guests, err
}

// Among returns the guests of this node among the given processes.
func (f Finder) Among(pids []int) ([]Guest, error) {
	all, err := f.among(pids, f.ours)
	return slices.DeleteFunc(all, Guest.canary), err
}

// Inside returns what looks like guests among the processes of one of this node's containers.
// Where they are, nobody else can be, so they need no generation that is known: what looks
// like a guest is kept when its container is stopped. The Generation of one whose gate is
// none of this node's is 0.
func (f Finder) Inside(pids []int) ([]Guest, error) {
	all, err := f.among(pids, func(Guest) bool { return true })
	return slices.DeleteFunc(all, Guest.canary), err
}

// ours reports whether a service of this node that may start guests has started one.
func (f Finder) ours(g Guest) bool {
	return g.Known() && (f.Hosts == nil || f.Hosts(g.Generation, g.Service))
}

// Canaries returns the processes of canaries that containers of this node started.
func (f Finder) Canaries() ([]Guest, error) {
	pids, err := f.Host.Processes()
	if err != nil {
		return nil, fmt.Errorf("find canaries: %w", err)
	}
	all, err := f.among(pids, f.ours)
	return slices.DeleteFunc(all, func(g Guest) bool { return !g.canary() }), err
}

func (f Finder) among(pids []int, counts func(Guest) bool) ([]Guest, error) {
	var guests []Guest
	for _, pid := range pids {
		g, err := f.inspect(pid)
		if host.Gone(err) {
			continue // the process exited meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("find guests: process %d: %w", pid, err)
		}
		if g.PID != 0 && counts(g) {
			guests = append(guests, g)
		}
	}
	return guests, nil
}

// inspect returns the zero Guest for a process that does not look like a guest.
func (f Finder) inspect(pid int) (Guest, error) {
	args, err := f.Host.CommandLine(pid)
	if err != nil {
		return Guest{}, err
	}
	name, uuid, ok := parseArguments(args)
	if !ok {
		return Guest{}, nil
	}
	generation, service, err := f.startedBy(pid)
	if err != nil {
		return Guest{}, err
	}
	start, err := f.Host.StartTime(pid)
	if err != nil {
		return Guest{}, err
	}
	return Guest{Name: name, UUID: uuid, PID: pid, Start: start, Generation: generation, Service: service}, nil
}

// startedBy finds the generation and service whose gate directory is mounted in
// the process's file system, if the directory is or was below those of this node.
func (f Finder) startedBy(pid int) (int, string, error) {
	// Any user's process may look like a guest, and may have any mounts in a namespace of its own.
	at, err := f.Host.MountedAt(pid, gate.Dir)
	if err != nil {
		return 0, "", err
	}
	if at.Path == "" {
		service, err := f.adopted(pid)
		return 0, service, err
	}
	own, err := f.origin()
	if err != nil {
		return 0, "", err
	}
	// "//deleted" follows if the generation was removed while the guest ran, or the whole state
	// directory was. Only who may write in there can have made such a path.
	below, ours := strings.CutPrefix(strings.TrimSuffix(at.Path, "//deleted"), strings.TrimSuffix(own.Path, "/")+"/")
	parts := strings.Split(below, "/") // NNNNNN/SERVICE/gate
	if !ours || at.Major != own.Major || at.Minor != own.Minor || len(parts) != 3 || parts[2] != "gate" {
		return 0, "", nil
	}
	generation, err := strconv.Atoi(parts[0])
	if err != nil || generation <= 0 {
		return 0, "", nil
	}
	return generation, parts[1], nil
}

// hostName is a file that Docker mounts into each of its containers, from the container's directory
// (moby: daemon/container_operations_unix.go).
const hostName = "/etc/hostname"

// adopted returns the service of generation 0 in whose container a process was started; empty
// if it was not. A guest outlives its container: one whose container is gone was started by an
// earlier libvirt, which kolla-ansible replaced.
func (f Finder) adopted(pid int) (string, error) {
	if len(f.Adopted.Services) == 0 {
		return "", nil
	}
	at, err := f.Host.MountedAt(pid, hostName)
	if err != nil || at.Path == "" {
		return "", err
	}
	path, err := filepath.EvalSymlinks(f.Adopted.Directory)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // so is everything of this engine
	}
	if err != nil {
		return "", err
	}
	own, err := f.Host.OriginOf(path)
	if err != nil {
		return "", err
	}
	file, gone := strings.CutSuffix(at.Path, "//deleted")
	dir, name := filepath.Split(file)
	if at.Major != own.Major || at.Minor != own.Minor || name != filepath.Base(hostName) || filepath.Dir(filepath.Clean(dir)) != filepath.Clean(own.Path) {
		return "", nil
	}
	service := f.Adopted.Services[filepath.Base(dir)]
	if service == "" && gone {
		service = f.Adopted.Libvirt
	}
	return service, nil
}

// origin returns the origin of the generations. If there are none, it is that which they would
// have: the state directory may have been removed.
func (f Finder) origin() (host.Origin, error) {
	exists, gone := f.Generations, ""
	path, err := filepath.EvalSymlinks(exists)
	for errors.Is(err, fs.ErrNotExist) && exists != filepath.Dir(exists) {
		exists, gone = filepath.Dir(exists), filepath.Join(filepath.Base(exists), gone)
		path, err = filepath.EvalSymlinks(exists)
	}
	if err != nil {
		return host.Origin{}, err
	}
	own, err := f.Host.OriginOf(path)
	own.Path = filepath.Join(own.Path, gone)
	return own, err
}

// parseArguments recognises QEMU as libvirt starts it: -name guest=NAME,… and
// -uuid UUID (libvirt: src/qemu/qemu_command.c). The first of each counts: the
// guest's owner controls some later arguments, such as its kernel's command
// line, which may be -uuid.
func parseArguments(args []string) (name, uuid string, ok bool) {
	if !isQEMU(args) {
		return "", "", false
	}
	for i := 1; i+1 < len(args); i++ {
		switch {
		case args[i] == "-name" && name == "":
			name = guestName(args[i+1])
		case args[i] == "-uuid" && uuid == "":
			uuid = args[i+1]
		}
	}
	return name, uuid, name != "" && uuid != ""
}

func isQEMU(args []string) bool {
	if len(args) == 0 {
		return false
	}
	program := filepath.Base(args[0])
	return strings.HasPrefix(program, "qemu-system-") || program == "qemu-kvm" || program == "kvm"
}

// guestName extracts NAME from guest=NAME,debug-threads=on; QEMU doubles commas
// within a value.
func guestName(option string) string {
	const mark = "\x00"
	option = strings.ReplaceAll(option, ",,", mark)
	for part := range strings.SplitSeq(option, ",") {
		if value, ok := strings.CutPrefix(part, "guest="); ok {
			return strings.ReplaceAll(value, mark, ",")
		}
	}
	first, _, _ := strings.Cut(option, ",")
	return strings.ReplaceAll(first, mark, ",")
}
