package ini_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kollet/kollet/configs/ini"
)

// values is a file as oslo.config reads it: values by section and key.
type values map[string]map[string][]string

func read(f *ini.File) values {
	all := values{}
	for _, s := range f.Sections {
		for _, k := range s.Keys {
			if all[s.Name] == nil {
				all[s.Name] = map[string][]string{}
			}
			all[s.Name][k.Name] = f.Get(s.Name, k.Name)
		}
	}
	return all
}

// The expected values are those that oslo.config 9.0 reads from the same text. For
// 40,000 random texts the only differences were the stricter errors below.
func TestParseLikeOsloConfig(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       values
	}{
		{"equals and colon", "[a]\nx = 1\ny: 2\nz=3\n", values{"a": {"x": {"1"}, "y": {"2"}, "z": {"3"}}}},
		{"the first sign splits", "[a]\nurl = http://h:1/?q=2\ny: a=b\n", values{"a": {"url": {"http://h:1/?q=2"}, "y": {"a=b"}}}},
		{"no section", "debug = true\n[a]\nx=1\n", values{"DEFAULT": {"debug": {"true"}}, "a": {"x": {"1"}}}},
		{"continuation", "[a]\nx = 1\n  2\n\t3\ny = 4\n", values{"a": {"x": {"1\n2\n3"}, "y": {"4"}}}},
		{"continuation of nothing", "[a]\nx =\n  2\n", values{"a": {"x": {"\n2"}}}},
		{"continuation that looks like a comment", "[a]\nx = 1\n  # 2\n", values{"a": {"x": {"1\n# 2"}}}},
		{"continuation that looks like a key", "[a]\nx = 1\n  y = 2\n", values{"a": {"x": {"1\ny = 2"}}}},
		{"comments", "# c\n; c\n[a]\n#x = 1\nx = 2 # not one\n", values{"a": {"x": {"2 # not one"}}}},
		{"a key that occurs twice", "[a]\nx = 1\ny = 2\nx = 3\n", values{"a": {"x": {"1", "3"}, "y": {"2"}}}},
		{"a section that occurs twice", "[a]\nx = 1\n[b]\ny=1\n[a]\nx = 3\n", values{"a": {"x": {"1", "3"}}, "b": {"y": {"1"}}}},
		{"sections in any case", "[Libvirt]\nx = 1\n[libvirt]\nx = 2\n", values{"Libvirt": {"x": {"1", "2"}}}},
		{"DEFAULT is not default", "[DEFAULT]\nx = 1\n[default]\nx = 2\n", values{"DEFAULT": {"x": {"1"}}, "default": {"x": {"2"}}}},
		{"empty value", "[a]\nx =\ny = \n", values{"a": {"x": {""}, "y": {""}}}},
		{"quotes", "[a]\nx = \" 1 \"\ny = 'a'b'\nz = \"1'\nq = \"\n", values{"a": {"x": {" 1 "}, "y": {"a'b"}, "z": {"\"1'"}, "q": {""}}}},
		{"quotes around the first line", "[a]\nx = \"1\"\n  \"2\"\n", values{"a": {"x": {"1\n\"2\""}}}},
		{"windows", "[a]\r\nx = 1\r\n  2\r\n", values{"a": {"x": {"1\n2"}}}},
		{"spaces in names", "[a b]\nx y = 1\n", values{"a b": {"x y": {"1"}}}},
		{"other space", "[a]\nx = \u00a01\u00a0\x1c\n", values{"a": {"x": {"1"}}}},
		{"nothing", "", values{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := ini.Parse([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := read(f); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestErrorsNameTheirLinesAndComeTogether(t *testing.T) {
	_, err := ini.Parse([]byte("  x = 1\n[a\n[]\n[ a ]\nword\n= 1\n\xff = 1\n\ufeffx = 1\n\vx = 1\nfine = 1\n"))
	want := `line 1: an indented line continues a value, and there is none above it; remove the indentation
line 2: expected a section, such as [libvirt], and nothing after it
line 3: the section has no name; expected one, such as [libvirt]
line 4: the section's name has spaces around it, and no service would find it; write [a]
line 5: expected key = value, a [section] or a # comment
line 6: no key before the '='; expected key = value
line 7: not valid UTF-8; save the file as UTF-8
line 8: starts with the invisible character U+FEFF; remove it
line 9: starts with the invisible character U+000B; remove it`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestABlankLineEndsAValue(t *testing.T) {
	if _, err := ini.Parse([]byte("[a]\nx = 1\n\n  2\n")); err == nil {
		t.Error("a continuation after a blank line was accepted; oslo.config refuses it")
	}
}

func TestMerge(t *testing.T) {
	for _, c := range []struct{ name, base, over, want string }{
		{"a key is replaced in its place", "[a]\nx = 1\ny = 2\n", "[a]\nx = 3\n", "[a]\nx = 3\ny = 2\n"},
		{"all values of a key are replaced", "[a]\nx = 1\nx = 2\nx = 3\n", "[a]\nx = 4\nx = 5\n", "[a]\nx = 4\nx = 5\n"},
		{"a new key comes last", "[a]\nx = 1\n[b]\ny = 1\n", "[a]\nz = 2\n", "[a]\nx = 1\nz = 2\n\n[b]\ny = 1\n"},
		{"a new section comes last", "[a]\nx = 1\n", "[b]\nx = 2\n", "[a]\nx = 1\n\n[b]\nx = 2\n"},
		{"the same key of another section stays", "[a]\nx = 1\n[b]\nx = 1\n", "[b]\nx = 2\n", "[a]\nx = 1\n\n[b]\nx = 2\n"},
		{"an empty value is a value", "[a]\nx = 1\n", "[a]\nx =\n", "[a]\nx =\n"},
		{"sections in another case are the same", "[libvirt]\nx = 1\n", "[Libvirt]\nx = 2\n", "[libvirt]\nx = 2\n"},
		{"no section is DEFAULT", "[DEFAULT]\nx = 1\n", "x = 2\n", "[DEFAULT]\nx = 2\n"},
		{"continuation lines", "[a]\nx = 1\n", "[a]\nx =\n  one\n  two\n", "[a]\nx =\n\tone\n\ttwo\n"},
		{"quotes stay", "[a]\nx = \" 1 \"\n", "", "[a]\nx = \" 1 \"\n"},
		{"an empty override changes nothing", "[a]\nx = 1\n", "# nothing\n[a]\n", "[a]\nx = 1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, over := parse(t, c.base), parse(t, c.over)
			base.Merge(over)
			if got := string(base.Bytes()); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

func TestMergeCopiesTheOverride(t *testing.T) {
	base, over := parse(t, "[a]\nx = 1\n"), parse(t, "[a]\nx = 2\n")
	base.Merge(over)
	base.Sections[0].Keys[0].Values[0] = "3"
	if got := over.Get("a", "x"); got[0] != "2" {
		t.Errorf("a change of the merged file changed the override to %q", got)
	}
}

func parse(t *testing.T, text string) *ini.File {
	t.Helper()
	f, err := ini.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Bytes writes a file that parses to the same values, and Merge replaces the values
// of each key of an override and leaves the others.
func FuzzParse(f *testing.F) {
	f.Add("[a]\nx = 1\n  2\ny: \"3\"\n", "x=1\n[A]\nx = 2\nx = 3\n")
	f.Add("debug = true\n[DEFAULT]\n; c\ndebug = false\n", "[b]\nk =\n\tv\n")
	f.Add("[a]b]\n'k' = '\n", "\r[x]\r\nk = \x1c\n")
	f.Fuzz(func(t *testing.T, text, overText string) {
		base, err := ini.Parse([]byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("an error without its line: %v", err)
			}
			return
		}
		before := read(base)
		again, err := ini.Parse(base.Bytes())
		if err != nil {
			t.Fatalf("what was written does not parse: %v\n%q", err, base.Bytes())
		}
		if after := read(again); !reflect.DeepEqual(before, after) {
			t.Fatalf("written as %q\nbefore %q\nafter  %q", base.Bytes(), before, after)
		}
		over, err := ini.Parse([]byte(overText))
		if err != nil {
			return
		}
		base.Merge(over)
		for section, keys := range read(over) {
			for key, want := range keys {
				if got := base.Get(section, key); !reflect.DeepEqual(got, want) {
					t.Errorf("[%s] %s: got %q, the override has %q", section, key, got, want)
				}
			}
		}
		for section, keys := range before {
			for key, want := range keys {
				if got := base.Get(section, key); over.Get(section, key) == nil && !reflect.DeepEqual(got, want) {
					t.Errorf("[%s] %s: got %q, but no override changed %q", section, key, got, want)
				}
			}
		}
	})
}
