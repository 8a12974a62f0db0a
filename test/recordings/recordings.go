// Package recordings reads and writes recordings: states of a node in which
// kollet was killed, as released versions left them. Every later version must
// recover each of them, or refuse it with a message.
//
// A set is a directory named after the version that recorded it. It holds a
// txtar file for each scenario, and each file the points at which kollet was
// killed, numbered from 1. A section's name says at which points it holds:
//
//	-- 3-7 generations/000002/manifest.json --   a file below the state directory
//	-- 3-7 generations/000002/alpha/public/ --   an empty directory
//	-- 1-7 current -> generations/000001 --      a symbolic link
//	-- 3-7 generations/000002/alpha/gate/f | --  a FIFO
//	-- 4 containers.json --                      the engine's containers
//	-- 4 end.json --                             where the version that recorded it took the node
package recordings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// Point is the state of a node in which kollet was killed.
type Point struct {
	State      map[string]string // content by section name, without what is not text
	Containers []Container       // of the node
	End        End
}

// Container is a container of a recorded node.
type Container struct {
	ID         string             `json:"id"`
	Name       string             `json:"name"`
	Service    string             `json:"service"`
	Generation string             `json:"generation"`
	ImageID    string             `json:"image_id"`
	Running    bool               `json:"running"`
	Restart    containers.Restart `json:"restart"`
}

// End is the state after recovery.
type End struct {
	Found      bool        `json:"found"` // there was something to recover
	Outcome    string      `json:"outcome,omitempty"`
	Current    int         `json:"current"` // generation
	Containers []Container `json:"containers"`
}

const (
	containersFile = "containers.json"
	endFile        = "end.json"

	// stateDir stands for the path of the state directory.
	stateDir = "@state@"
)

// Containers describes what an engine has, in a fixed order.
func Containers(all []containers.Container) []Container {
	described := []Container{}
	for _, c := range all {
		described = append(described, Container{
			ID: c.ID, Name: c.Spec.Name,
			Service: c.Spec.Labels[node.LabelService], Generation: c.Spec.Labels[node.LabelGeneration],
			ImageID: c.ImageID, Running: c.State == containers.StateRunning, Restart: c.Spec.Restart,
		})
	}
	slices.SortFunc(described, func(a, b Container) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Generation, b.Generation))
	})
	return described
}

// skipped are files that recovery does not read: programs, and the lock.
func skipped(name string) bool {
	return strings.HasPrefix(name, "kollet-start") || name == "lock" || name == "reserve"
}

// ReadState reads a state directory.
func ReadState(dir string) (map[string]string, error) {
	state := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || skipped(d.Name()) {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch d.Type() {
		case fs.ModeDir:
			if empty, err := isEmpty(path); err != nil || !empty {
				return err
			}
			state[name+"/"] = ""
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			state[name+" -> "+target] = ""
		case fs.ModeNamedPipe:
			state[name+" |"] = ""
		default:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if len(data) > 0 && data[len(data)-1] != '\n' {
				return fmt.Errorf("%s does not end with a newline: a recording could not hold it", name)
			}
			state[name] = strings.ReplaceAll(string(data), dir, stateDir)
		}
		return nil
	})
	return state, err
}

// isEmpty reports whether a directory holds nothing that is recorded.
func isEmpty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !skipped(e.Name()) }), err
}

// WriteState writes a state directory.
func WriteState(dir string, state map[string]string) error {
	var errs []error
	for name, content := range state {
		path := filepath.Join(dir, name)
		link, target, isLink := strings.Cut(path, " -> ")
		fifo, isFIFO := strings.CutSuffix(path, " |")
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o700))
		switch {
		case strings.HasSuffix(name, "/"):
			errs = append(errs, os.MkdirAll(path, 0o700))
		case isLink:
			errs = append(errs, os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(target, link))
		case isFIFO:
			errs = append(errs, unix.Mkfifo(fifo, 0o600))
		default:
			errs = append(errs, os.WriteFile(path, []byte(strings.ReplaceAll(content, stateDir, dir)), 0o600))
		}
	}
	return errors.Join(errs...)
}

// sections returns a point as a recording holds it.
func (p Point) sections() (map[string]string, error) {
	all := maps.Clone(p.State)
	for name, value := range map[string]any{containersFile: p.Containers, endFile: p.End} {
		data, err := json.MarshalIndent(value, "", " ")
		if err != nil {
			return nil, err
		}
		all[name] = string(data) + "\n"
	}
	return all, nil
}

// Write writes the points of a scenario. What does not change from one point to
// the next is written once.
func Write(path string, comment string, points []Point) error {
	type section struct {
		name, content string
		from, to      int
	}
	var all []*section
	open := map[string]*section{}
	for i, p := range points {
		sections, err := p.sections()
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(sections)) {
			if s := open[name]; s != nil && s.content == sections[name] && s.to == i {
				s.to++
				continue
			}
			open[name] = &section{name, sections[name], i + 1, i + 1}
			all = append(all, open[name])
		}
	}
	archive := txtar.Archive{Comment: []byte(comment + "\n\n")}
	for _, s := range all {
		at := strconv.Itoa(s.from)
		if s.to > s.from {
			at += "-" + strconv.Itoa(s.to)
		}
		archive.Files = append(archive.Files, txtar.File{Name: at + " " + s.name, Data: []byte(s.content)})
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, txtar.Format(&archive), 0o644)
}

// Read reads the points of a scenario.
func Read(path string) ([]Point, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	var points []Point
	for _, f := range archive.Files {
		at, name, _ := strings.Cut(f.Name, " ")
		first, last, isRange := strings.Cut(at, "-")
		if !isRange {
			last = first
		}
		from, ferr := strconv.Atoi(first)
		to, terr := strconv.Atoi(last)
		if err := errors.Join(ferr, terr); err != nil || from < 1 || to < from {
			return nil, fmt.Errorf("%s: section %q: no points", path, f.Name)
		}
		for len(points) < to {
			points = append(points, Point{State: map[string]string{}})
		}
		for i := from - 1; i < to; i++ {
			if err := points[i].set(name, f.Data); err != nil {
				return nil, fmt.Errorf("%s: section %q: %w", path, f.Name, err)
			}
		}
	}
	return points, nil
}

func (p *Point) set(name string, data []byte) error {
	switch name {
	case containersFile:
		return json.Unmarshal(data, &p.Containers)
	case endFile:
		return json.Unmarshal(data, &p.End)
	}
	p.State[name] = string(data)
	return nil
}
