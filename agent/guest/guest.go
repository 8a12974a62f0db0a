// Package guest finds the QEMU processes that belong to a node's libvirt and
// keeps them alive while its container is replaced. It reads /proc and the
// cgroup hierarchies and asks neither engine nor libvirt, so it also works
// while both are down.
package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kollet/kollet/agent/gate"
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

// Same reports whether both are the same process, not merely the same number.
func (g Guest) Same(other Guest) bool { return g.PID == other.PID && g.Start == other.Start }

// Finder looks for guests.
type Finder struct {
	Proc        string // /proc
	Generations string // directory of the node's generations
}

// Find returns the guests of this node, by name. A guest is told by its root
// file system: that of the container that started it, in which the gate
// directory of a generation of this node is mounted. It stays so when the
// guest is moved to another cgroup and its container is stopped.
func (f Finder) Find() ([]Guest, error) {
	entries, err := os.ReadDir(f.Proc)
	if err != nil {
		return nil, fmt.Errorf("find guests: %w", err)
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	guests, err := f.Among(pids)
	slices.SortFunc(guests, func(a, b Guest) int {
		return strings.Compare(a.Name+a.UUID, b.Name+b.UUID)
	})
	return guests, err
}

// Among returns the guests of this node among the given processes.
func (f Finder) Among(pids []int) ([]Guest, error) {
	var guests []Guest
	for _, pid := range pids {
		g, err := f.inspect(pid)
		if gone(err) {
			continue // the process ended meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("find guests: process %d: %w", pid, err)
		}
		if g.PID != 0 {
			guests = append(guests, g)
		}
	}
	return guests, nil
}

// inspect returns the zero Guest for a process that is none of this node's.
func (f Finder) inspect(pid int) (Guest, error) {
	dir := filepath.Join(f.Proc, strconv.Itoa(pid))
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return Guest{}, err
	}
	name, uuid, ok := parseCmdline(cmdline)
	if !ok {
		return Guest{}, nil
	}
	generation, service, err := f.startedBy(dir)
	if err != nil || generation == 0 {
		return Guest{}, err
	}
	start, err := startTime(dir)
	if err != nil {
		return Guest{}, err
	}
	return Guest{Name: name, UUID: uuid, PID: pid, Start: start, Generation: generation, Service: service}, nil
}

// startedBy finds the generation and service whose gate directory is mounted in
// the process's file system, and makes sure that it is this node's.
func (f Finder) startedBy(dir string) (int, string, error) {
	mounts, err := os.ReadFile(filepath.Join(dir, "mountinfo"))
	if errors.Is(err, errNoMounts) {
		return 0, "", fs.ErrNotExist
	}
	if err != nil {
		return 0, "", err
	}
	root, ok := mountRoot(string(mounts), gate.Dir)
	if !ok {
		return 0, "", nil
	}
	// root ends in NNNNNN/SERVICE/gate; a generation that was removed under a
	// running guest has "//deleted" behind it.
	parts := strings.Split(strings.TrimSuffix(root, "//deleted"), "/")
	if len(parts) < 3 {
		return 0, "", nil
	}
	generation, err := strconv.Atoi(parts[len(parts)-3])
	if err != nil {
		return 0, "", nil
	}
	service := parts[len(parts)-2]
	ours, err := os.Stat(filepath.Join(f.Generations, parts[len(parts)-3], service, "gate"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	theirs, err := os.Stat(filepath.Join(dir, "root", gate.Dir))
	if err != nil {
		return 0, "", err
	}
	if !os.SameFile(ours, theirs) {
		return 0, "", nil
	}
	return generation, service, nil
}

// parseCmdline recognises QEMU as libvirt starts it: -name guest=NAME,… and
// -uuid UUID (libvirt: src/qemu/qemu_command.c). The first of each counts:
// behind them come words of the guest's owner, such as its kernel's command
// line, which may be -uuid.
func parseCmdline(cmdline []byte) (name, uuid string, ok bool) {
	args := strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
	program := filepath.Base(args[0])
	if !strings.HasPrefix(program, "qemu-system-") && program != "qemu-kvm" && program != "kvm" {
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

// guestName takes NAME out of guest=NAME,debug-threads=on; QEMU doubles commas
// within a value.
func guestName(option string) string {
	const mark = "\x00"
	option = strings.ReplaceAll(option, ",,", mark)
	for _, part := range strings.Split(option, ",") {
		if value, ok := strings.CutPrefix(part, "guest="); ok {
			return strings.ReplaceAll(value, mark, ",")
		}
	}
	first, _, _ := strings.Cut(option, ",")
	return strings.ReplaceAll(first, mark, ",")
}

// startTime reads field 22 of /proc/PID/stat.
func startTime(dir string) (uint64, error) {
	fields, err := statFields(dir)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func statFields(dir string) ([]string, error) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil, err
	}
	fields := parseStat(stat)
	if len(fields) < 20 {
		return nil, fmt.Errorf("read %s: expected at least 22 fields", filepath.Join(dir, "stat"))
	}
	return fields, nil
}

// parseStat returns the fields of a stat file from the third, the state, on.
// The command name before them is in parentheses and may hold blanks and
// parentheses itself (proc_pid_stat(5)).
func parseStat(stat []byte) []string {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return nil
	}
	return strings.Fields(string(stat[end+1:]))
}

// gone reports whether an error under /proc means that the process ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoProcess)
}
