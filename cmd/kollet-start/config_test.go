package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDirectoryModes(t *testing.T) {
	for bits, want := range map[uint32]uint32{0o600: 0o700, 0o644: 0o755, 0o2750: 0o2750, 0o640: 0o750, 0o200: 0o200, 0o1777: 0o1777} {
		if got := (mode{bits: bits}).of(true); got != want {
			t.Errorf("a directory with %#o gets %#o, want %#o", bits, got, want)
		}
		if got := (mode{bits: bits}).of(false); got != bits {
			t.Errorf("a file with %#o gets %#o", bits, got)
		}
	}
}

func TestStrings(t *testing.T) {
	for in, want := range map[string]string{
		`a`:               "a",
		`\\u00e4 \\ud800`: `\u00e4 \ud800`,
		`\"\\\/\b\f\n\r\t\u00e4\uD83D\ude00\ue000\ud7ff`: "\"\\/\b\f\n\r\tä😀\ue000\ud7ff",
		"ä\x7f\ufffd": "ä\x7f\ufffd",
	} {
		c, err := parseConfig([]byte("\t{ \"_comment\": [true, false, null, -1.5e+3, 0, {}],\r\n\"command\": \"" + in + "\"}\n"))
		if err != nil || c.command != want {
			t.Errorf("%s is %q (%v), want %q", in, c.command, err, want)
		}
	}
}

func TestOnlyJSONIsAccepted(t *testing.T) {
	const aString = ": the string is not closed, or contains "
	for _, tc := range []struct{ in, want string }{
		{``, "cannot parse"},
		{`{"command": `, "cannot parse"},
		{`{"command": "a`, "line 1, column 13" + aString},
		{"{\"command\": \"a\nb\"}", "line 1, column 13" + aString},
		{"{\"command\":\n \"a\tb\"}", "line 2, column 2" + aString},
		{"{\"_ä\": \"ä\", \"command\": \"a\tb\\n\"}", "line 1, column 24" + aString},
		{"{\"_a\tb\\n\": 1, \"command\": \"\"}", "line 1, column 2" + aString},
		{`{"command": "\x"}`, "line 1, column 13" + aString},
		{`{"command": "\u12g4"}`, "line 1, column 13" + aString},
		{`{"command": "\u12"}`, "line 1, column 13" + aString},
		{`{"command": "\`, "line 1, column 13" + aString},
		{`{"command": "\ud800"}`, "line 1, column 13" + aString},
		{`{"command": "\ud800\u0041"}`, "line 1, column 13" + aString},
		{`{"command": "\uDC80"}`, "line 1, column 13" + aString},
		{`{"command": "\ud83d\ude00\ud83d"}`, "line 1, column 13" + aString},
		{`{"_\ud800": 1, "command": ""}`, "line 1, column 2" + aString},
		{"{\"command\":\n\"ä\xff\"}", "line 2, column 3: this is not UTF-8"},
		{"{\"command\": \"\xed\xa0\x80\"}", "line 1, column 14: this is not UTF-8"},
		{"\xef\xbb\xbf{\"command\": \"\"}", "cannot parse"},
		{`{"command": "",}`, "cannot parse"},
		{`{"command" ""}`, "missing ':'"},
		{`{"command": "" "_b": 2}`, "missing ','"},
		{`{'command': ""}`, "cannot parse"},
		{`{"command": ""} {}`, "unexpected tail"},
		{`// comment`, "cannot parse"},
		{strings.Repeat("[", 1e6), "too big depth"},
		{`{"command": "", "_": ` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `}`, "too big depth"},
	} {
		if _, err := parseConfig([]byte(tc.in)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.100s: got error %.200v, want %q", tc.in, err, tc.want)
		}
	}
	for _, word := range []string{`[1,]`, `[1 2]`, `01`, `-`, `1.`, `.5`, `+1`, `1e`, `0x1`, `NaN`, `nan`, `Infinity`, `-Infinity`, `inf`, `True`, `nul`, "1\v"} {
		if _, err := parseConfig([]byte(`{"command": "", "_": ` + word + `}`)); err == nil || !strings.Contains(err.Error(), "cannot parse") {
			t.Errorf("%s: got error %v", word, err)
		}
	}
}

// Package encoding/json accepts the same, except that it replaces what is not valid
// Unicode.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{copyConfig, `[1e5, -0.1, "\ud83d\ude00", null]`, `{"a": {"b": [true]}}`, `"\/`, "\"\n\"", "\"\n\\n\"", `"\\ud800"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseJSON(data)
		if err == nil != json.Valid(data) {
			replaced := !utf8.Valid(data) || strings.Contains(strings.ToLower(string(data)), `\ud`)
			if err == nil || !replaced && !strings.Contains(err.Error(), "too big depth") {
				t.Fatalf("%q: error %v", data, err)
			}
		}
		if err != nil {
			return
		}
		var want string
		if got, err := v.asText(); err == nil && (json.Unmarshal(data, &want) != nil || got != want) {
			t.Errorf("%q is %q, want %q", data, got, want)
		}
	})
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(copyConfig))
	f.Add([]byte(`{"command": "a", "directories": [{"path": "/d", "owner": "root", "perm": "0o755"}], "files": [{"path": "/f", "owner": "a:b", "perm": "644"}],
		"config_files": [{"source": "/s/*", "dest": "/d/", "preserve_properties": true, "merge": true, "optional": true}],
		"permissions": [{"path": "/p*", "owner": "root", "recurse": true, "perm": null, "exclude": ["a|b"]}]}`))
	f.Add([]byte(`{"command": "\u0000", "files": [[]], "files": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig(data)
		if err != nil {
			return
		}
		for _, rules := range [][]rule{c.directories, c.files, c.copies, c.permissions} {
			for _, r := range rules {
				if r.perm.bits > 0o7777 {
					t.Errorf("%s: accepted mode %#o", r.where, r.perm.bits)
				}
				for _, path := range []string{r.path, r.source, r.dest} {
					if path != "" && (path[0] != '/' || strings.Contains(path, "\x00")) {
						t.Errorf("%s: accepted path %q", r.where, path)
					}
				}
			}
		}
		for _, r := range c.copies {
			if r.source == "" || r.dest == "" || !r.preserve && (r.owner == "" || !r.perm.given) {
				t.Errorf("accepted %+v", r)
			}
		}
		for _, r := range append(c.directories, c.files...) {
			if r.path == "" || r.owner == "" || !r.perm.given || hasMagic(r.path) {
				t.Errorf("accepted %+v", r)
			}
		}
	})
}
