package nodefile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
)

// Problem is one thing wrong with a node file, or with something it names.
type Problem struct {
	Place
	Key  string // path of the key, such as services.nova-compute.image
	Text string // what is wrong, what was expected, and what to do
}

// Place is where something stands in a document. The zero Place is nowhere.
type Place struct {
	File         string
	Line, Column int
}

func (p Place) String() string {
	switch {
	case p.Line > 0:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	default:
		return p.File
	}
}

func (p Problem) Error() string {
	var parts []string
	for _, s := range []string{p.Place.String(), p.Key, p.Text} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Problems collects what is wrong, so that all of it is reported together.
type Problems struct{ all *multierror.Error }

// Add notes an error; nil adds nothing.
func (p *Problems) Add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			p.all = multierror.Append(p.all, err)
		}
	}
}

// Addf notes a problem with a key.
func (p *Problems) Addf(at Place, key, format string, args ...any) {
	p.Add(Problem{Place: at, Key: key, Text: fmt.Sprintf(format, args...)})
}

// Len returns how many problems there are.
func (p *Problems) Len() int {
	if p.all == nil {
		return 0
	}
	return len(p.all.Errors)
}

// Err returns all problems as one error, one a line, in the order of the
// documents; nil if there are none.
func (p *Problems) Err() error {
	if p.all == nil {
		return nil
	}
	first := map[string]int{} // where in the list a file is first named
	for i, err := range slices.Backward(p.all.Errors) {
		if problem, ok := err.(Problem); ok {
			first[problem.File] = i
		}
	}
	order := func(err error) []int {
		problem, ok := err.(Problem)
		if !ok { // it has no place, like a flag, and comes last
			return []int{len(p.all.Errors)}
		}
		return []int{first[problem.File], problem.Line, problem.Column}
	}
	slices.SortStableFunc(p.all.Errors, func(a, b error) int { return slices.Compare(order(a), order(b)) })
	p.all.ErrorFormat = func(errs []error) string {
		lines := make([]string, len(errs))
		for i, err := range errs {
			lines[i] = err.Error()
		}
		return strings.Join(lines, "\n")
	}
	return p.all
}
