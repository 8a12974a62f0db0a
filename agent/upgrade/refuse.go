package upgrade

import (
	"fmt"

	"github.com/kollet/kollet/agent/journal"
)

// Options say how an upgrade is run. They are no part of its target.
type Options struct {
	Force bool // continue for reasons that refuse an upgrade
}

// refuse returns the error with which an upgrade is refused for this reason, which
// includes the remedy. With Options.Force it warns and returns nil. It is for
// reasons that an operator may overrule: an upgrade that cannot work anyway returns
// an error of its own.
func (t *transaction) refuse(reason error) error {
	if t.options.Force {
		return t.warn("", "continuing with --force: %w", reason)
	}
	return fmt.Errorf("%w; `kollet %s --force` continues regardless", reason, t.command())
}

// command is the command that has --force and that the target is of. A bootstrap has no such flag, and
// an upgrade does the same.
func (t *transaction) command() string {
	switch {
	case t.target.Returns:
		return "rollback 0"
	case t.target.Recalled:
		return "rollback"
	case t.target.Reason == "adopt":
		return "adopt"
	}
	return "upgrade"
}

// warn reports a warning, about a service if one is named, and records it for the
// history. It must be called from the goroutine that runs the step.
func (t *transaction) warn(service, format string, args ...any) error {
	err := t.target.Redact(fmt.Errorf(format, args...))
	t.node.Note(service, "warning: %v", err)
	r := journal.Record{Event: journal.Warning, Note: err.Error()}
	if service != "" {
		r.Note = service + ": " + r.Note
	}
	if len(t.started) > 0 {
		r.Step = t.started[len(t.started)-1].id()
	}
	return t.journal.Append(r)
}
