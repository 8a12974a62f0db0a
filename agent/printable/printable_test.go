package printable_test

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/printable"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"  two\t words\r\nand more ":   "two words and more",
		"naïve … 世界":                   "naïve … 世界",
		"\x1b[31mred\x1b[0m\x1b[m end": "red end",
		"\x1b[1;38:5:9mred\x1b[00m":    "red",
		"\x1b[\x1b[0mA\x1b[2J\x1b[31":  "�[A�[2J�[31",
		"\u009b31m \u202e \x00 \xff":   "�31m � � �",
		strings.Repeat("x", 200):       strings.Repeat("x", 200),
		strings.Repeat("é", 201):       strings.Repeat("é", 200) + "…",
	} {
		if got := printable.Line(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestReasonIsLonger(t *testing.T) {
	text := strings.Repeat("no such user; ", 50) + "\x1b]0;title\a"
	want := strings.Repeat("no such user; ", 50) + "�]0;title�"
	if got := printable.Reason(text); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
