package format

import (
	"errors"
	"strings"
	"testing"
	"unicode"
)

// A file cannot make an error send control characters to the terminal, or fill it.
func TestPrintable(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, e := range []*UnknownError{
		{File: "f", What: "unknown format 2", Writer: "\x1b[31m9.0\n"},
		{File: "f", What: "unknown format 2", Step: "\x1b]0;\a", Writer: "9.0"},
		{File: "f", What: `unknown event "` + long + `"`, Step: long, Writer: long},
	} {
		if text := e.Error(); len(text) > 1000 || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%.300q", text)
		}
	}
}

func TestDecode(t *testing.T) {
	type inner struct{ A int }
	type file struct {
		Header
		In []inner
	}
	const rest = `, written by kollet 9.0; use that version or a newer one`
	for text, want := range map[string]string{
		`{"format": 2, "in": [{"a": 1}]}`:                          "",
		`{"format": 3, "kollet": "9.0", "in": 7}`:                  "f.json: unknown format 3" + rest,
		`{"format": 2, "kollet": "9.0", "in": [{"a": 1, "b": 2}]}`: `f.json: unknown field "b"` + rest,
		`{"format": 2, "kollet": "9.0", "more": true, "in": []}`:   `f.json: unknown field "more"` + rest,
		`{"kollet": "0.1", "in": []}`:                              "f.json: no format number, written by kollet 0.1; use that version",
		`{"in": []}`:                                               "f.json: no format number, written by an unknown version of kollet; use the version that wrote it",
	} {
		var f file
		err := Decode("f.json", []byte(text), 2, &f)
		var unknown *UnknownError
		if want == "" && err != nil || want != "" && (!errors.As(err, &unknown) || err.Error() != want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	for _, damaged := range []string{"", "{", `{"format": 2} {`, `{"format": 2, "in": 7}`, "[]"} {
		var f file
		var wrong *DamagedError
		if err := Decode("f.json", []byte(damaged), 2, &f); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", damaged, err)
		}
	}
}
