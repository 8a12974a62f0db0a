package pyyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// read are documents and their JSON, which PyYAML finds the same.
var read = []struct{ name, in, want string }{
	{"JSON", `{"a": ["b\u00e4\n", true, null, -1.5e+3, {}]}`, `{"a":["bä\n",true,null,-1500,{}]}`},
	{"a mapping", "# why\n---\na: b c # d\n'e': \"\\x41\\0\\\"\\\\\"\nf:\n- g\n- - h\n...\n", `{"a":"b c","e":"A\u0000\"\\","f":["g",["h"]]}`},
	{"folded and literal", "a: >\n b\n c\nd: |-\n e\n  f\n", `{"a":"b c\n","d":"e\n f"}`},
	{"lines of a plain scalar", "a: b\n  c\n\n  d\n", `{"a":"b c\nd"}`},
	{"booleans", "[yes, No, ON, off, True, FALSE, y, n, yEs, oN, 'yes']", `[true,false,true,false,true,false,"y","n","yEs","oN","yes"]`},
	{"null", "[~, null, NULL, nULL, {a: }, '', none]", `[null,null,null,"nULL",{"a":null},"","none"]`},
	{"integers", "[0, 12, -1_000, +7, 0x1F, 0b11, 0600, 0_7, 0o640, 0888, 08, 1a, --1, 0644 ]", `[0,12,-1000,7,31,3,384,7,"0o640","0888","08","1a","--1",420]`},
	{"floats", "[1., 1.5, .5, -.5, 1e5, 1.0e5, 1.0e+5, 1_0.5, 1.2.3, '.5', -, +, .]", `[1,1.5,0.5,"-.5","1e5","1.0e5",100000,10.5,"1.2.3",".5","-","+","."]`},
	{"nearly dates", "[2026-1-2, 26-01-02, 2026-01-02x, '2026-01-02', 2026-01-02-03]", `["2026-1-2","26-01-02","2026-01-02x","2026-01-02","2026-01-02-03"]`},
	{"text that looks like more", "[/a:b, root:root, a#b, -a, '~', a-:b, {c:d: e}]", `["/a:b","root:root","a#b","-a","~","a-:b",{"c:d":"e"}]`},
	{"tags", "!!map {a: !!str 0600, b: !!int 12, c: !!seq [], d: !!bool yes, e: !!null , f: !!float 1, g: ! h, !!str 1: x}", `{"a":"0600","b":12,"c":[],"d":true,"e":null,"f":1,"g":"h","1":"x"}`},
	{"aliases", "a: &x {b: &y [c]}\nd: *x\ne: *y\n", `{"a":{"b":["c"]},"d":{"b":["c"]},"e":["c"]}`},
	{"an alias as a key", "a: &x b\n*x : *x\n", `{"a":"b","b":"b"}`},
	{"merge", "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {<<: *x, b: 3}\nl: {c: 4, <<: [*x, *y, {d: 5}]}\nm: {<<: {<<: *x, a: 6}}\n",
		`{"x":{"a":1,"b":1},"y":{"b":2,"c":2},"z":{"a":1,"b":3},"l":{"a":1,"b":1,"d":5,"c":4},"m":{"b":1,"a":6}}`},
	{"= is a key", "{=: a, '<<': b}", `{"=":"a","<<":"b"}`},
	{"a byte order mark, and the ends of lines", "\ufeffa: b\r\nc: d\re: f\u0085g: h", `{"a":"b","c":"d","e":"f","g":"h"}`},
	{"levels", strings.Repeat("[", mostLevels) + strings.Repeat("]", mostLevels), strings.Repeat("[", mostLevels) + strings.Repeat("]", mostLevels)},
}

// refused are documents that are not read, and why PyYAML reads those that it does.
var refused = []struct{ name, in, want, otherwise string }{
	{"nothing", "", "the file is empty", ""},
	{"comments", "# a\n", "the file is empty", ""},
	{"an empty document", "---\n", "the file is empty", ""},
	{"two documents", "a: b\n---\nc: d\n", "line 2, column 1: a second document begins here", ""},
	{"no YAML", "a: b\n c: d\n", "not valid YAML near line 2: mapping values are not allowed", ""},
	{"no YAML in line 1", "a: b: c", "not valid YAML: mapping values are not allowed", ""},
	{"no YAML later", "a: b\n--- {", "not valid YAML near line", ""},
	{"a tab", "a:\n\tb: c\n", "not valid YAML near line 2: found character that cannot start any token", ""},
	{"no anchor", "a: *b\n", "not valid YAML: unknown anchor 'b' referenced", ""},
	{"not UTF-8", "a: b\nc: \xff\n", "line 2, column 4: this is not UTF-8", ""},
	{"UTF-16", "\xff\xfea\x00", "line 1, column 1: this is not UTF-8", "PyYAML reads bytes, but Kolla gives it text"},
	{"control characters", "a: ä\n\"b\": \"\x01\"\n", "line 2, column 7: YAML does not allow the character U+0001; write it as an escape", ""},
	{"DEL", "a: \x7f\n", "line 1, column 4: YAML does not allow the character U+007F", ""},
	{"half of a surrogate pair", `a: "\ud800"`, "not valid YAML", "Python has such strings"},
	{"an escape of JSON", `a: "\/"`, "not valid YAML: found unknown escape character", "YAML 1.2 has it, and PyYAML"},
	{"a colon at the end", "a: [b:, c]\n", `line 1, column 5: "b:" ends in a colon; put it in quotes`, "it is a key"},
	{"null", "~\n", "the file is empty", ""},
	{"a date", "a:\n  - 2026-01-02\n", `line 2, column 5: "2026-01-02" is a date here; put it in quotes`, ""},
	{"a time", "a: 2026-1-2 3:04:05.5 +1:00\n", `line 1, column 4: "2026-1-2 3:04:05.5 +1:00" is a date here`, ""},
	{"base 60", "owner: 42:42\n", `line 1, column 8: "42:42" is a number here, and no number of JSON; put it in quotes`, "Python has such numbers"},
	{"base 60 with a fraction", "a: 1:30.5\n", `"1:30.5" is a number here`, "Python has such numbers"},
	{"more than 64 bits", "a: 123456789012345678901\n", "is a number here", "Python has such numbers"},
	{"infinite", "a: -.inf\n", `"-.inf" is a number here`, ""},
	{"no number", "a: .nan\n", `".nan" is a number here`, ""},
	{"a number without digits", "a: 0x_\n", `"0x_" is a number here`, ""},
	{"=", "a: =\n", `line 1, column 4: "=" has a meaning of its own`, ""},
	{"<<", "a: <<\n", `line 1, column 4: "<<" has a meaning of its own`, ""},
	{"twice", "a: b\nc: d\na: e\n", "line 3, column 1: the key a is there twice, first in line 1; PyYAML would take the last: remove one", "the last one"},
	{"twice by an alias", "x: &k a\n*k : b\na: c\n", "line 3, column 1: the key a is there twice", "the last one"},
	{"merged twice", "x: &x {a: 1}\ny: {<<: *x, <<: *x}\n", "line 2, column 13: the key << is there twice", "the last one"},
	{"merged itself twice", "x: &x {a: 1, a: 2}\ny: {<<: *x, a: 3}\n", "the key a is there twice", "the last one"},
	{"a number as key", "1: a\n", `line 1, column 1: "1" is a number, not a string; put the key in quotes`, "Python has such keys"},
	{"a boolean as key", "on: a\n", `"on" is true or false, not a string; put the key in quotes`, "Python has such keys"},
	{"null as key", "~: a\n", `"~" is null, not a string`, "Python has such keys"},
	{"a date as key", "2026-01-02: a\n", `"2026-01-02" is a date, not a string`, ""},
	{"a list as key", "? [a]\n: b\n", "line 1, column 3: expected a string as key", ""},
	{"a merged scalar", "a: {<<: b}\n", "line 1, column 9: << takes a mapping, or a list of mappings", ""},
	{"a list with a merged scalar", "a: {<<: [{b: c}, d]}\n", "line 1, column 18: << takes a mapping, or a list of mappings", ""},
	{"an unknown tag", "a: !b c\n", `line 1, column 4: the tag !b does not fit "c" here; leave it out`, ""},
	{"Python's tags", "a: !!python/object/apply:os.getcwd []\n", "the tag !!python/object/apply:os.getcwd does not fit here", ""},
	{"another type", "a: !!int b\n", "the tag !!int does not fit", ""},
	{"a tag of text for a list", "a: !!str [b]\n", "the tag !!str does not fit here", ""},
	{"a set", "a: !!set {b, c}\n", "the tag !!set does not fit here", ""},
	{"binary", "a: !!binary aGk=\n", "the tag !!binary does not fit", ""},
	{"levels", strings.Repeat("[", mostLevels+1) + strings.Repeat("]", mostLevels+1), "line 1, column 301: more than 300 levels", "Python has such lists"},
	{"more levels", strings.Repeat("[", 20000), "exceeded max depth", ""},
	{"levels of blocks", strings.Repeat("- ", 400) + "a", "more than 300 levels", "Python has such lists"},
	{"itself", "a: &a [*a]\n", "or an alias within what it stands for", ""},
	{"merges itself", "a: &a {<<: *a, b: c}\n", "or an alias within what it stands for", "nothing is merged"},
}

func TestToJSON(t *testing.T) {
	for _, c := range read {
		t.Run(c.name, func(t *testing.T) {
			if got, err := ToJSON([]byte(c.in)); string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			if got, err := ToJSON([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.200s, error %v, want %q", got, err, c.want)
			}
		})
	}
}

// safeLoad reads documents, and prints the JSON of each, or nothing if there is none.
const safeLoad = `
import json, sys, yaml
for text in json.load(sys.stdin):
    try:
        value = yaml.safe_load(text.encode("utf-8", "surrogateescape"))
        print("" if value is None else json.dumps(value, allow_nan=False))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        print("")
`

// load reads documents with PyYAML.
func load(t *testing.T, documents []string) []any {
	t.Helper()
	var quoted []string
	for _, d := range documents {
		quoted = append(quoted, quote(d))
	}
	cmd := exec.Command("/usr/bin/python3", "-c", safeLoad)
	cmd.Stdin = strings.NewReader("[" + strings.Join(quoted, ",") + "]")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var values []any
	for line := range bytes.Lines(out) {
		var v any
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatal(err)
			}
		}
		values = append(values, v)
	}
	if len(values) != len(documents) {
		t.Fatalf("%d results for %d documents", len(values), len(documents))
	}
	return values
}

// quote writes a document that need not be UTF-8 as JSON, as Python escapes such bytes.
func quote(document string) string {
	var out strings.Builder
	out.WriteByte('"')
	for len(document) > 0 {
		r, size := utf8.DecodeRuneInString(document)
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&out, `\udc%02x`, document[0])
		} else {
			text, _ := json.Marshal(document[:size])
			out.Write(text[1 : len(text)-1])
		}
		document = document[size:]
	}
	out.WriteByte('"')
	return out.String()
}

func TestAsPyYAML(t *testing.T) {
	var documents []string
	for _, c := range read {
		documents = append(documents, c.in)
	}
	for _, c := range refused {
		documents = append(documents, c.in)
	}
	values := load(t, documents)
	for i, c := range read {
		var want any
		if err := json.Unmarshal([]byte(c.want), &want); err != nil || !reflect.DeepEqual(values[i], want) {
			t.Errorf("%s: PyYAML reads %v, not %v", c.name, values[i], want)
		}
	}
	for i, c := range refused {
		if got := values[len(read)+i]; (got != nil) != (c.otherwise != "") {
			t.Errorf("%s: PyYAML reads %v; expected difference: %q", c.name, got, c.otherwise)
		}
	}
}

// A small file can mean a lot of work.
func TestAliasesEnd(t *testing.T) {
	laughs, merges := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n", "a0: &a0 {a: b}\n"
	for i := range 20 {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 10))
		merges += fmt.Sprintf("a%d: &a%d {<<: [%s]}\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 10))
	}
	long := "b: &b " + strings.Repeat("x", 1<<20) + "\nc: [" + strings.Repeat("*b,", 1000) + "]\n"
	var keys strings.Builder
	keys.WriteString("a0: &a0 {")
	for i := range 100_000 {
		fmt.Fprintf(&keys, "k%d: ,", i)
	}
	keys.WriteString("}\n")
	for i := range 290 {
		fmt.Fprintf(&keys, "a%d: &a%d {<<: *a%d}\n", i+1, i+1, i)
	}
	for name, text := range map[string]string{"laughs": laughs, "merges": merges, "keys": keys.String(), "long": long, "escapes": "[" + strings.Repeat("\"\\a\",", 800_000) + "]"} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, err := ToJSON([]byte(text))
			if err == nil || !strings.Contains(err.Error(), "too large, with its aliases written out") {
				t.Errorf("got error %v", err)
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
	if _, err := ToJSON(make([]byte, most+1)); err == nil || !strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Errorf("got error %v", err)
	}
}

// What is written is JSON, and YAML that means the same.
func FuzzToJSON(f *testing.F) {
	for _, c := range read {
		f.Add([]byte(c.in))
	}
	for _, c := range refused {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := ToJSON(data)
		if err != nil {
			return
		}
		if !json.Valid(out) || !utf8.Valid(out) {
			t.Fatalf("%q becomes %q", data, out)
		}
		if bytes.ContainsFunc(out, func(r rune) bool { return checkCharacters([]byte("a"+string(r))) != nil }) {
			return // a string has what YAML allows only as an escape
		}
		again, err := ToJSON(out)
		if err != nil {
			if !strings.Contains(err.Error(), "too large") && !strings.Contains(err.Error(), "no number of JSON") {
				t.Errorf("%q becomes %q: %v", data, out, err)
			}
			return
		}
		var first, second any
		if err := errors.Join(json.Unmarshal(out, &first), json.Unmarshal(again, &second)); err != nil || !reflect.DeepEqual(first, second) {
			t.Errorf("%q becomes %q, which becomes %q, %v", data, out, again, err)
		}
	})
}
