package guest

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kollet/kollet/agent/host"
)

// inits are programs that start one other, pass signals on to it, and exit when it has exited: dumb-init
// in Kolla's images, and what engines run with --init, which is tini with Docker and catatonit with Podman.
var inits = []string{"dumb-init", "tini", "tini-static", "docker-init", "catatonit", "podman-init"}

func isInit(args []string) bool {
	return len(args) > 0 && slices.Contains(inits, filepath.Base(args[0]))
}

// findService finds the processes of the service that the first one has started, if that is an init: what
// the init started, and if that is an init too, what it started.
func (s *Sorter) findService() error {
	if !isInit(s.args) {
		return nil
	}
	pids, err := s.finder.Host.Processes()
	if err != nil {
		return err
	}
	for at, args := s.first, s.args; isInit(args); {
		child, found, err := s.eldest(at, pids)
		if err != nil || !found {
			return err
		}
		at = child.pid
		s.service = append(s.service, child)
		args, err = s.finder.Host.CommandLine(at)
		if err != nil && !host.Gone(err) {
			return err
		}
	}
	return nil
}

// eldest returns what an init has started: its eldest child. The others are daemons that it adopted,
// which the eldest, or what that started, has left behind. It started none yet, or is about to exit, if there
// is none, if the eldest has exited, or if the eldest is a guest or a daemon.
func (s *Sorter) eldest(parent int, pids []int) (process, bool, error) {
	own, err := s.finder.Host.Lineage(parent)
	if host.Gone(err) {
		return process{}, false, nil
	}
	if err != nil {
		return process{}, false, fmt.Errorf("find what process %d started: %w", parent, err)
	}
	var child process
	var lineage host.Lineage
	for _, pid := range pids {
		l, err := s.finder.Host.Lineage(pid)
		if host.Gone(err) || err == nil && l.Parent != parent {
			continue
		}
		if err != nil {
			return process{}, false, fmt.Errorf("find what process %d started: process %d: %w", parent, pid, err)
		}
		if child.pid == 0 || cmp.Or(cmp.Compare(l.Start, child.start), cmp.Compare(pid, child.pid)) < 0 {
			child, lineage = process{pid, l.Start}, l
		}
	}
	if child.pid == 0 || lineage.Exited || lineage.Session != own.Session && lineage.Session != child.pid {
		return process{}, false, nil
	}
	args, err := s.finder.Host.CommandLine(child.pid)
	if host.Gone(err) || err == nil && isQEMU(args) {
		return process{}, false, nil
	}
	if err != nil {
		return process{}, false, fmt.Errorf("find what process %d started: process %d: %w", parent, child.pid, err)
	}
	s.sessions[lineage.Session] = true
	return child, true, nil
}

// seeService remembers the arguments of the service's processes: each may execute another program, as the
// start script of Kolla's images does, and its copies have the same.
func (s *Sorter) seeService() error {
	for _, p := range s.service {
		start, err := s.finder.Host.StartTime(p.pid)
		var args []string
		if err == nil {
			args, err = s.finder.Host.CommandLine(p.pid)
		}
		if host.Gone(err) || err == nil && (start != p.start || len(args) == 0) {
			continue // it has exited, or executes a program at this moment
		}
		if err != nil {
			return fmt.Errorf("find what serves guests: process %d: %w", p.pid, err)
		}
		if !slices.ContainsFunc(s.copied, func(known []string) bool { return slices.Equal(known, args) }) {
			s.copied = append(s.copied, args)
		}
	}
	return nil
}

// Behind opens the processes of the service that run behind an init, the last of them first: it is the
// service itself.
func (s *Sorter) Behind() ([]*host.Process, error) {
	var all []*host.Process
	for _, p := range slices.Backward(s.service) {
		opened, err := host.Open(p.pid)
		if err == nil {
			var start uint64
			if start, err = s.finder.Host.StartTime(p.pid); err == nil && start == p.start {
				all = append(all, opened)
				continue
			}
			opened.Close() // the number is another process's by now, or nobody's
		}
		if err != nil && !host.Gone(err) && !errors.Is(err, host.ErrExited) {
			return all, err
		}
	}
	return all, nil
}
