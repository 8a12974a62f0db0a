package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJSON(t *testing.T) {
	str := func(s string) value { return value{kind: isText, text: s} }
	for _, tc := range []struct {
		in   string
		want value
	}{
		{` "a" `, str("a")},
		{`"\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00"`, str("\"\\/\b\f\n\r\tä😀")},
		{"\"ä\x7f\"", str("ä\x7f")},
		{`[true, false, null, -1.5e+3, 0]`, value{kind: isList, items: []value{{kind: isBool, yes: true}, {kind: isBool}, {}, {kind: isNumber}, {kind: isNumber}}}},
		{"{\"a\":\t\"b\",\r\n\"c\":[]}", value{kind: isObject, members: []member{{"a", str("b")}, {"c", value{kind: isList}}}}},
	} {
		got, err := parseJSON([]byte(tc.in))
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s is %+v (%v), want %+v", tc.in, got, err, tc.want)
		}
	}
}

func TestJSONIsRefused(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{``, "line 1, column 1: the file ends too early"},
		{`{"command": `, "line 1, column 13: the file ends too early"},
		{"{\"command\": \"a\nb\"}", "line 1, column 15: a string contains a control character"},
		{"{\"command\":\n \"a\tb\"}", "line 2, column 4: a string contains a control character"},
		{`"\x"`, "line 1, column 2: a string contains an unknown escape"},
		{`"\u12g4"`, "unknown escape"},
		{`"\`, "ends too early"},
		{`"\ud800"`, "half of a surrogate pair"},
		{`"\ud800\u0041"`, "half of a surrogate pair"},
		{`"\udc80"`, "half of a surrogate pair"},
		{"\"\xff\"", "not valid UTF-8"},
		{"\"\xed\xa0\x80\"", "not valid UTF-8"},
		{"\xef\xbb\xbf{}", "line 1, column 1: expected a value"},
		{`{"a": 1,}`, "expected a key in double quotes"},
		{`[1,]`, "line 1, column 4: expected a value"},
		{`{"a" 1}`, "expected a colon"},
		{`{"a": 1 "b": 2}`, "expected a comma or }"},
		{`[1 2]`, "expected a comma or ]"},
		{`{'a': 1}`, "expected a key in double quotes"},
		{`01`, "expected a value"},
		{`1.`, "expected a value"},
		{`+1`, "expected a value"},
		{`1e`, "expected a value"},
		{`NaN`, "expected a value"},
		{`True`, "expected a value"},
		{`{} {}`, "line 1, column 4: something follows the value"},
		{`// comment`, "expected a value"},
		{strings.Repeat("[", 200), "nested too deeply"},
	} {
		if _, err := parseJSON([]byte(tc.in)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want %q", tc.in, err, tc.want)
		}
	}
}

func TestQuote(t *testing.T) {
	if got, want := quote("/ä \"\\\n\x7f😀"), `"/\u00e4 \"\\\n\u007f\ud83d\ude00"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Package encoding/json accepts the same, except that it replaces what is not valid
// Unicode.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{copyConfig, `[1e5, -0.1, "\ud83d\ude00", null]`, `{"a": {"b": [true]}}`, `"\/`, "\"\n\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseJSON(data)
		var want any
		wantErr := json.Unmarshal(data, &want)
		if err == nil && wantErr != nil && !strings.Contains(wantErr.Error(), "cannot unmarshal number") {
			t.Fatalf("accepted %q: %v", data, wantErr)
		}
		if err != nil {
			replaced := !utf8.Valid(data) || strings.Contains(strings.ToLower(string(data)), `\ud`) || strings.Contains(err.Error(), "too deeply")
			if wantErr == nil && !replaced {
				t.Fatalf("refused %q: %v", data, err)
			}
			return
		}
		if plain := got.plain(); wantErr == nil && !reflect.DeepEqual(plain, withoutNumbers(want)) {
			t.Errorf("%q is %#v, want %#v", data, plain, want)
		}
	})
}

// plain is a value as encoding/json has it, with 0 for every number.
func (v value) plain() any {
	switch v.kind {
	case isBool:
		return v.yes
	case isNumber:
		return 0.0
	case isText:
		return v.text
	case isList:
		out := []any{}
		for _, item := range v.items {
			out = append(out, item.plain())
		}
		return out
	case isObject:
		out := map[string]any{}
		for _, m := range v.members {
			out[m.key] = m.value.plain()
		}
		return out
	default:
		return nil
	}
}

func withoutNumbers(v any) any {
	switch v := v.(type) {
	case float64, int:
		return 0.0
	case []any:
		for i := range v {
			v[i] = withoutNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = withoutNumbers(v[k])
		}
	}
	return v
}
