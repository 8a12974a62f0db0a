// Package printable makes texts of files, containers and APIs fit for a line of a
// terminal.
package printable

import (
	"strings"
	"unicode"
)

// How many characters of a text are shown.
const (
	longest       = 200  // of a name, a word, an answer
	longestReason = 1000 // of an error
)

// Line returns a text on one line: white space as single spaces, characters that no
// terminal should get replaced, and the end cut off if the text is long.
func Line(text string) string { return line(text, longest) }

// Reason is Line for an error, which is longer and may end with a remedy.
func Reason(text string) string { return line(text, longestReason) }

func line(text string, longest int) string {
	var b strings.Builder
	for shown, r := range []rune(strings.Join(strings.Fields(text), " ")) {
		if shown == longest {
			b.WriteRune('…')
			break
		}
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
	}
	return b.String()
}
