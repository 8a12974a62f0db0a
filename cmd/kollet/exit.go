package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/cmd/kollet/view"
)

// Exit statuses.
const (
	exitDone     = 0
	exitFailed   = 1
	exitInput    = 2
	exitChanges  = 3
	exitOperator = 4
	exitLocked   = 5
	exitDeferred = 6
)

// exitMeanings describes each status, for help and the manual.
var exitMeanings = []string{
	exitDone:     "success, or nothing to do",
	exitFailed:   "failed; the node is in its previous state",
	exitInput:    "invalid input; nothing was changed",
	exitChanges:  "the plan has changes (with --exit-code)",
	exitOperator: "the node needs an operator: it is neither fully on the new generation nor healthy on the old one, or its state is damaged or was written by another version of kollet",
	exitLocked:   "another kollet process is changing this node",
	exitDeferred: "deferred, as the node file asks: operations on servers are under way; the node is in its previous state",
}

// statusError is an exit status that reports a finding, not a failure: the result
// has been shown.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// resultError is the error of a command that also has a result.
type resultError struct {
	error
	result view.View
}

func (e resultError) Unwrap() error { return e.error }

func exitStatus(err error) int {
	var found statusError
	var usage usageError
	var input node.BadInput
	var operator node.NeedsOperator
	var deferred node.Deferred
	var unknown *format.UnknownError
	var damaged *format.DamagedError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &found):
		return int(found)
	case errors.As(err, &operator), errors.As(err, &unknown), errors.As(err, &damaged):
		return exitOperator
	case errors.As(err, &usage), errors.As(err, &input):
		return exitInput
	case errors.Is(err, node.ErrLocked):
		return exitLocked
	case errors.As(err, &deferred):
		return exitDeferred
	}
	return exitFailed
}

// finish shows the error, if any, and returns the exit status.
func (a *app) finish(err error) int {
	status := exitStatus(err)
	var found statusError
	if err == nil || errors.As(err, &found) {
		return status
	}
	var failed resultError
	errors.As(err, &failed)
	a.print().Fail(err, status, failed.result)
	return status
}

// exitHelp lists the exit statuses of a command for its help. own replaces the
// description of some of them.
func exitHelp(own map[int]string, statuses ...int) string {
	var b strings.Builder
	b.WriteString("\n\nExit status:\n")
	for _, s := range statuses {
		meaning := exitMeanings[s]
		if text, ok := own[s]; ok {
			meaning = text
		}
		fmt.Fprintf(&b, "\n    %d  %s", s, meaning)
	}
	return b.String()
}
