// Package failure explains the errors of container engines and image registries:
// what each one means and what to do about it. The text of an explained error is one
// line; errors.Is and errors.As find its cause, and the errors that package
// containers declares.
//
// Errors are classified by their types if the clients have types for them. The rest
// is text, because the engines' APIs pass on messages of registries and runc:
// messages.go lists these texts and where they come from.
package failure

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
)

// Engine describes an engine for messages and remedies.
type Engine struct {
	Name    string // docker, containerd or podman
	Like    string // the engine whose client it has, so that texts of that engine's errors are its own
	Address string // of its socket
	Puller  string // the program that connects to registries, docker or kollet

	Start string        // what to do if the engine does not answer
	Space string        // where disk space is needed
	Caps  func() string // what to do if the engine cannot start a privileged container

	AllowHTTP func(registry string) string // how to allow a registry without TLS
	TrustCA   func(registry string) string // how to trust a registry's CA

	// Types are tests for errors that have types of this engine's client. Types
	// of the standard library and of errdefs need no tests here.
	Types map[Kind]func(error) bool
}

// Error is an explained error.
type Error struct {
	Kind   Kind
	Remedy string // what to do about it; empty if that is not known
	text   string
	cause  error
}

// Error returns what was being done, what the error means, its cause and the
// remedy, on one line.
func (e *Error) Error() string { return e.text }

// Unwrap returns the cause and the error that represents this kind.
func (e *Error) Unwrap() []error {
	if is := meanings[e.Kind].is; is != nil {
		return []error{is, e.cause}
	}
	return []error{e.cause}
}

// Error explains an error that the engine returned while doing something.
func (e Engine) Error(doing string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{text: doing + ": " + OneLine(err), cause: err}
	}
	return e.explain(doing, "", engineKinds, err)
}

// PullError explains why an image could not be pulled from a registry. If ctx
// has ended, that is the reason.
func (e Engine) PullError(ctx context.Context, doing, registry string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	return e.explain(doing, registry, pullKinds, err)
}

// LoadError explains why an image archive could not be loaded. If ctx has
// ended, that is the reason.
func (e Engine) LoadError(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	return e.explain(doing, "", loadKinds, err)
}

// Remedy returns what to do about an explained error or an error of the host; empty
// if that is not known.
func Remedy(err error) string {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known.Remedy
	case errors.Is(err, syscall.ENOSPC):
		return "free disk space"
	}
	return ""
}

func (e Engine) explain(doing, registry string, kinds []Kind, err error) error {
	if known := (*Error)(nil); errors.As(err, &known) { // explained where it occurred
		return &Error{known.Kind, known.Remedy, doing + ": " + OneLine(err), err}
	}
	kind := e.classify(kinds, err)
	m := meanings[kind]
	text := doing
	if m.meaning != nil {
		text += ": " + m.meaning(e, registry)
	}
	if cause := OneLine(err); !m.alone && cause != "" {
		text += ": " + cause
	}
	remedy := ""
	if m.remedy != nil {
		remedy = m.remedy(e, registry)
		text += "; " + remedy
	}
	return &Error{kind, remedy, text, err}
}

// dockerAway is what Docker's client says instead of the cause if the engine cannot be
// reached (client/errors.go: connectionFailed). The meaning of the error says the same.
var dockerAway = regexp.MustCompile(`Cannot connect to the Docker daemon( at \S+)?\. Is the docker daemon running[^?]*\?`)

// OneLine returns the text of an error on one line, without the prefix that Docker's
// client adds to errors of the engine, and without its question.
func OneLine(err error) string {
	var lines []string
	text := dockerAway.ReplaceAllString(err.Error(), "")
	for line := range strings.Lines(strings.ReplaceAll(text, "Error response from daemon: ", "")) {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return strings.Join(lines, "; ")
}
