package report

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the name that was probably meant by got: the one with the fewest
// edits if they are at most half of got's length, else the first that begins with
// got, else "". It ignores case.
func Nearest(got string, names []string) string {
	got = strings.ToLower(got)
	best, distance := "", len(got)/2+1
	for _, name := range names {
		if d := levenshtein.ComputeDistance(got, strings.ToLower(name)); d < distance {
			best, distance = name, d
		}
	}
	if best != "" || len(got) < 2 {
		return best
	}
	for _, name := range names {
		if strings.HasPrefix(strings.ToLower(name), got) {
			return name
		}
	}
	return ""
}

// DidYouMean returns "; did you mean NAME?" with the nearest name, to follow a
// problem's text. It is empty if no name is near.
func DidYouMean(got string, names []string) string {
	if name := Nearest(got, names); name != "" {
		return "; did you mean " + name + "?"
	}
	return ""
}
