package view

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/docker/go-units"
	"golang.org/x/term"

	"github.com/kollet/kollet/agent/printable"
)

// text builds output for people.
type text struct {
	bytes.Buffer
	colour   bool
	terminal bool // it is read by people now
	now      time.Time
}

// Colours, as SGR parameters (ECMA-48, 8.3.117).
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (t *text) paint(colour, s string) string { return paint(t.colour, colour, s) }

func paint(on bool, colour, s string) string {
	if !on || colour == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

func (t *text) line(format string, args ...any) {
	t.WriteString(clean(fmt.Sprintf(format, args...)) + "\n")
}

func (t *text) painted(colour, format string, args ...any) {
	t.WriteString(t.paint(colour, clean(fmt.Sprintf(format, args...))) + "\n")
}

// table writes aligned columns. colour returns the colour of a row and may be nil.
func (t *text) table(header []string, rows [][]string, colour func(row int) string) {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(onOneLine(cell)))
		}
	}
	t.WriteString(t.paint(bold, aligned(header, widths)) + "\n")
	for i, row := range rows {
		c := ""
		if colour != nil {
			c = colour(i)
		}
		t.WriteString(t.paint(c, aligned(row, widths)) + "\n")
	}
}

func aligned(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		cell = onOneLine(cell)
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
	}
	return strings.TrimRight(b.String(), " ")
}

// age formats a time as an age: "3 hours ago".
func (t *text) age(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return strings.ToLower(units.HumanDuration(max(0, t.now.Sub(at)))) + " ago"
}

// clean protects the terminal from text of others: it removes colours, and replaces
// control characters other than tab and newline, characters that change the direction of
// text, and invalid UTF-8, with a replacement character.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(printable.Colourless(s), string(unicode.ReplacementChar)))
}

// onOneLine is clean for a name or a cell, which could otherwise pass for lines of their own.
func onOneLine(s string) string {
	return strings.ReplaceAll(clean(s), "\n", string(unicode.ReplacementChar))
}

// shortDuration formats a duration with about three digits.
func shortDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Second:
		return fmt.Sprintf("%.3gms", float64(d)/float64(time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// count formats "1 guest", "2 guests".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// terminal returns the terminal that w is, if it is one.
func terminal(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// colour reports whether to colour what goes to w (https://no-color.org).
func (s Screen) colour(w io.Writer) bool {
	_, ok := terminal(w)
	return ok && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb" && s.Getenv("TERM") != ""
}

// unicode reports whether the locale has more than ASCII (locale(7)).
func (s Screen) unicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := s.Getenv(name); value != "" {
			value = strings.ToLower(value)
			return strings.HasSuffix(value, "utf-8") || strings.HasSuffix(value, "utf8")
		}
	}
	return false
}
