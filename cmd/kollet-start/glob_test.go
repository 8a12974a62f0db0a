package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern string
		matches string // names, separated by spaces
		not     string
	}{
		{"[f", "[f", "f [ ["},
		{"[]f]", "] f", "[]f] []"},
		{"[!]z", "[!]z", "az !z"},
		{"[!]z]", "a [", "] z"},
		{"[!a]b", "bb !b", "ab b"},
		{"[^a]", "^ a", "b"},
		{`a\b`, `a\b`, "ab"},
		{`\*`, `\ \x`, "*"},
		{"[a-c-e]", "a b c - e", "d"},
		{"[-a]", "- a", "b"},
		{"[a-]", "- a", "b"},
		{"[z-a]", "", "z a -"},
		{"[!z-a]", "z a -", "aa"},
		{"[[]x", "[x", "x"},
		{"a*b*c", "abc axxbxxc abbc", "ab acb"},
		{"?", "a ä 😀 \xff", "ab"},
		{"[\xfe-\xff]", "\xff", "\xfd ÿ"},
		{"**", "a", ""},
	} {
		for name := range strings.FieldsSeq(tc.matches) {
			if !matches(tc.pattern, name) {
				t.Errorf("%q does not match %q", tc.pattern, name)
			}
		}
		for name := range strings.FieldsSeq(tc.not) {
			if matches(tc.pattern, name) {
				t.Errorf("%q matches %q", tc.pattern, name)
			}
		}
	}
}

// fnmatch reads patterns and names, and reports whether they match.
const fnmatch = `
import fnmatch, json, sys
print(json.dumps([fnmatch.fnmatchcase(name, pattern) for pattern, name in json.load(sys.stdin)]))
`

func TestMatchesAsPython(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(letters string, most int) string {
		var b strings.Builder
		for range random.IntN(most) {
			b.WriteByte(letters[random.IntN(len(letters))])
		}
		return b.String()
	}
	var pairs [][2]string
	for range 20000 {
		pattern := word("ab[]-*?c", 10)
		if random.IntN(2) == 0 {
			pattern = strings.Replace(pattern, "[", "[!", 1)
		}
		pairs = append(pairs, [2]string{pattern, word("abc-[]", 5)})
	}
	in, err := json.Marshal(pairs)
	check(t, err)
	cmd := exec.Command(python, "-c", fnmatch)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	check(t, err)
	var want []bool
	check(t, json.Unmarshal(out, &want))
	if len(want) != len(pairs) || !slices.Contains(want, true) {
		t.Fatalf("Python says %d times whether they match", len(want))
	}
	for i, p := range pairs {
		if got := matches(p[0], p[1]); got != want[i] {
			t.Errorf("%q matches %q: %v, with Python: %v", p[0], p[1], got, want[i])
		}
	}
}

func FuzzGlob(f *testing.F) {
	dir := f.TempDir()
	for _, name := range []string{"a.conf", ".hidden", "[x]", `b\c`, "^"} {
		check(f, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for _, pattern := range []string{"*", "[!a]*", `b\c`, "[^", "[]a]*", ".*", "a?conf", "**/x", "../*", "/"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if strings.Contains(pattern, "/") || pattern == ".." || pattern == "." {
			return // would look elsewhere on this machine
		}
		found, err := applier{root: "/"}.glob(dir + "/" + pattern)
		if err != nil {
			return
		}
		for _, path := range found {
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("%q gives %q: %v", pattern, path, err)
			}
			if strings.HasPrefix(filepath.Base(path), ".") && hasMagic(pattern) && pattern[0] != '.' {
				t.Errorf("%q gives the hidden %q", pattern, path)
			}
		}
	})
}
