package configs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/hashicorp/go-multierror"
)

// Problem is one thing that is wrong with a file to render.
type Problem struct {
	File string // template or fragment
	Line int    // in File, from 1; 0 if it is about the whole file
	Key  string // in the node file, such as services.nova-compute.config[0]
	Text string // what is wrong, what was expected, and what to do
}

func (p *Problem) Error() string {
	var parts []string
	switch {
	case p.File != "" && p.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", p.File, p.Line))
	case p.File != "":
		parts = append(parts, p.File)
	}
	if p.Key != "" && p.Key != p.File {
		parts = append(parts, p.Key)
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// problems collects what is wrong with one file.
type problems struct{ all *multierror.Error }

func (p *problems) add(errs ...error) { p.all = multierror.Append(p.all, errs...) }

func (p *problems) empty() bool { return p.all == nil }

// err returns everything as one error, one problem a line.
func (p *problems) err() error {
	if p.all == nil {
		return nil
	}
	p.all.ErrorFormat = func(errs []error) string {
		lines := make([]string, len(errs))
		for i, err := range errs {
			lines[i] = err.Error()
		}
		return strings.Join(lines, "\n")
	}
	return p.all
}

// nearest returns the name that was probably meant; empty if none is near.
func nearest(got string, names []string) string {
	best, distance := "", len(got)/2+1
	for _, name := range names {
		if d := levenshtein.ComputeDistance(got, name); d < distance {
			best, distance = name, d
		}
	}
	return best
}

func didYouMean(got string, names []string) string {
	if best := nearest(got, names); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
