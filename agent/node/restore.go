package node

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/gate/start"
	"github.com/kollet/kollet/agent/generation"
)

// Missing is a file of kollet's that a container mounts, and that it cannot be started again
// without, although it runs: it keeps what it has mounted.
type Missing struct {
	Path    string
	Err     error        // what is wrong with it
	restore func() error // nil: something else is in its place
}

// Restorable reports whether an upgrade or a recovery makes the file what it was.
func (m Missing) Restorable() bool { return m.restore != nil }

// Missing returns what the container of a service misses, of what kollet can make again without
// knowing what it was: kollet-start, and its gate, which is open in the generation that runs.
// Of a generation that is gone as a whole, nothing is made again: its config files are gone too.
func (n *Node) Missing(s generation.Service) []Missing {
	if _, err := os.Lstat(n.Store().Path(s.Origin)); err != nil {
		return nil
	}
	var missing []Missing
	program := filepath.Join(n.Store().Path(s.Origin), StartName)
	if err := start.Check(program); err != nil {
		m := Missing{Path: program, Err: err}
		if info, err := os.Lstat(program); err != nil || !info.IsDir() {
			m.restore = func() error { return start.Write(program) }
		}
		missing = append(missing, m)
	}
	dir := n.Store().Gate(s.Origin, s.Name)
	if !gate.IsOpen(dir) {
		m := Missing{Path: filepath.Join(dir, gate.FileOpen)}
		m.Err = fmt.Errorf("%s is missing: the container would wait at its gate", m.Path)
		if info, err := os.Lstat(dir); err != nil || info.IsDir() {
			m.restore = func() error { return gate.Restore(dir) }
		}
		missing = append(missing, m)
	}
	return missing
}

// RestoreFiles restores what the containers of the generation that runs miss. They do not need
// it before they are started again, so a failure is only noted: an upgrade then refuses to
// stop them.
func (n *Node) RestoreFiles(g generation.Generation) {
	for _, s := range g.Services {
		for _, m := range n.Missing(s) {
			if !m.Restorable() {
				continue // it is drift
			}
			if err := m.restore(); err != nil {
				n.Note(s.Name, "warning: %v; it cannot be restored: %v", m.Err, err)
				continue
			}
			n.Note(s.Name, "%v; it was restored", m.Err)
		}
	}
}
