package node

import (
	"errors"
	"io/fs"
)

// ErrLocked means that another kollet process is changing this node.
var ErrLocked = errors.New("another kollet process holds the lock")

// ErrNoGeneration means that the node has not been bootstrapped.
var ErrNoGeneration = errors.New("this node has no generation yet; run `kollet bootstrap`, or `kollet adopt` if kolla-ansible runs it")

// BadInput wraps a problem with the node file or with what it names. Nothing
// was touched.
type BadInput struct{ Err error }

func (e BadInput) Error() string { return e.Err.Error() }
func (e BadInput) Unwrap() error { return e.Err }

// NeedsOperator means that an upgrade reached neither of its two ends, or that
// the node is on one of them but not healthy.
type NeedsOperator struct{ Err error }

func (e NeedsOperator) Error() string { return e.Err.Error() }
func (e NeedsOperator) Unwrap() error { return e.Err }

// Deferred means that an upgrade was put off, as the node file asks: operations on
// servers are under way. Nothing was cut over.
type Deferred struct{ Err error }

func (e Deferred) Error() string { return e.Err.Error() }
func (e Deferred) Unwrap() error { return e.Err }

// WithoutPath returns the reason of an error about a file, for a message that
// has named the file already.
func WithoutPath(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}
