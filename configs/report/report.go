// Package report collects everything that is wrong with a document, each
// problem with its place and its key, so that one run reports all of it. It
// also finds the name that a mistyped one probably stands for.
package report

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-multierror"
)

// Place is a position in a document. The zero Place is unknown.
type Place struct {
	File         string
	Line, Column int // from 1; 0 is unknown
}

// String returns FILE:LINE:COLUMN, as far as it is known.
func (p Place) String() string {
	switch {
	case p.Line > 0 && p.Column > 0:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	case p.Line > 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return p.File
	}
}

// Problem is one thing that is wrong with a document, or with a file that it
// names.
type Problem struct {
	Place
	Key  string // path of the key, such as services.nova-compute.image
	Text string // what is wrong, what was expected, and what to do
	Err  error  // the cause, for errors.Is and errors.As; may be nil
}

// Wrap returns err as a problem at a place.
func Wrap(at Place, err error) Problem { return Problem{Place: at, Text: err.Error(), Err: err} }

func (p Problem) Error() string {
	var parts []string
	if place := p.Place.String(); place != "" {
		parts = append(parts, place)
	}
	if p.Key != "" && p.Key != p.File { // where a key's value is the document, its name is the key
		parts = append(parts, oneLine(p.Key))
	}
	if p.Text != "" {
		parts = append(parts, p.Text)
	}
	return strings.Join(parts, ": ")
}

// oneLine returns a key as it is, or quoted if it has characters that are not printed: YAML
// allows any in a key.
func oneLine(key string) string {
	if strings.ContainsFunc(key, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(key)
	}
	return key
}

func (p Problem) Unwrap() error { return p.Err }

// Problems collects problems. The zero value is ready for use.
type Problems struct{ all *multierror.Error }

// Add appends errors that are not nil. An error that Err returned is appended as
// its parts.
func (p *Problems) Add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			p.all = multierror.Append(p.all, err)
		}
	}
}

// Addf appends a problem with a key. The format may wrap a cause with %w.
func (p *Problems) Addf(at Place, key, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	p.Add(Problem{Place: at, Key: key, Text: err.Error(), Err: errors.Unwrap(err)})
}

// Len returns how many problems there are.
func (p *Problems) Len() int {
	if p.all == nil {
		return 0
	}
	return len(p.all.Errors)
}

// Err returns all problems as one error with one problem per line, or nil if there
// are none. Problems are sorted by document, in the order in which documents were
// first added, then by line and column. Errors without a place come last.
func (p *Problems) Err() error {
	if p.Len() == 0 {
		return nil
	}
	errs := slices.Clone(p.all.Errors)
	sortByPlace(errs)
	return &multierror.Error{Errors: errs, ErrorFormat: lines}
}

func sortByPlace(errs []error) {
	first := map[string]int{} // document: index of its first problem
	position := func(err error) []int {
		problem, ok := errors.AsType[Problem](err)
		if !ok {
			return []int{len(errs)}
		}
		return []int{first[problem.File], problem.Line, problem.Column}
	}
	for i, err := range slices.Backward(errs) {
		if problem, ok := errors.AsType[Problem](err); ok {
			first[problem.File] = i
		}
	}
	slices.SortStableFunc(errs, func(a, b error) int { return slices.Compare(position(a), position(b)) })
}

func lines(errs []error) string {
	all := make([]string, len(errs))
	for i, err := range errs {
		all[i] = err.Error()
	}
	return strings.Join(all, "\n")
}
