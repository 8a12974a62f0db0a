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

// Line returns a text on one line: without colours, white space as single spaces,
// characters that no terminal should get replaced, and the end cut off if the text is long.
func Line(text string) string { return line(text, longest) }

// Reason is Line for an error, which is longer and may end with a remedy.
func Reason(text string) string { return line(text, longestReason) }

// Colourless returns a text without the colours and styles that programs give to their
// log lines: the escape sequences "ESC [ numbers m" (ECMA-48, select graphic rendition).
func Colourless(text string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if rest := strings.TrimLeft(after, "0123456789;:"); strings.HasPrefix(rest, "m") {
			after = rest[1:]
		} else {
			b.WriteString("\x1b[")
		}
		text = after
	}
}

func line(text string, longest int) string {
	var b strings.Builder
	for shown, r := range []rune(strings.Join(strings.Fields(Colourless(text)), " ")) {
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
