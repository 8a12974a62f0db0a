package format

import (
	"errors"
	"testing"
)

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
		var unknown *UnknownError
		if err := Decode("f.json", []byte(damaged), 2, &f); err == nil || errors.As(err, &unknown) {
			t.Errorf("%s: %v", damaged, err)
		}
	}
}
