package docker

import (
	"slices"
	"strings"

	"github.com/kollet/kollet/containers/failure"
)

// Dialect is what an engine with Docker's API does in its own way.
type Dialect struct {
	Description failure.Engine // of the engine, in errors

	// If a command could not be started, the engine writes a message to its output, and its status
	// is the one that a shell would give.
	Refusal         string   // the beginning of that message
	Refusals        []string // texts of which that message has one; none: no command that ran is like that
	RefusesOnStderr bool     // it is written to the standard error

	// Of a layer that is pulled, the last message is that it was downloaded. The image has such
	// messages too, as the last one.
	OnlyDownloads bool

	LosesSizes bool // of a terminal, just after its command was started
}

// dockers is Docker's own.
var dockers = Dialect{Refusal: "OCI runtime exec failed"}

// Compatible returns a client of another engine that has Docker's API at a socket, unix:///….
func Compatible(address string, dialect Dialect) (*Engine, error) {
	e, err := New(address)
	if err != nil {
		return nil, err
	}
	d := dialect.Description
	d.Address, d.Like, d.Types = e.errors.Address, e.errors.Name, e.errors.Types
	e.errors, e.dialect = d, dialect
	return e, nil
}

// Explain explains an error that came while doing something.
func (e *Engine) Explain(doing string, err error) error { return e.fail(doing, err) }

// refuses reports whether a message says that a command could not be started.
func (d Dialect) refuses(message string) bool {
	return len(d.Refusals) == 0 || slices.ContainsFunc(d.Refusals, func(text string) bool { return strings.Contains(message, text) })
}
