package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPatterns(t *testing.T) {
	for _, tc := range []struct {
		expr    string
		matches []string
		not     []string
	}{
		{"", []string{"", "/a"}, nil},
		{"x", []string{"/a/x.conf"}, []string{"/a"}},
		{`^/srv/`, []string{"/srv/a"}, []string{"/a/srv/", "/srv"}},
		{`\.git$`, []string{"/a/.git", "/a/.git\n"}, []string{"/a/.gitignore", "/agit"}},
		{`\.git\Z`, []string{"/a/.git"}, []string{"/a/.git\n"}},
		{`a.b`, []string{"a/b", "a\xffb", "aäb"}, []string{"a\nb", "ab"}},
		{`(disk|console)\.(log|config)?$`, []string{"disk.log", "console."}, []string{"disk"}},
		{`^(?:a|b){2,3}$`, []string{"ab", "bab"}, []string{"a", "abab"}},
		{`^a{,2}b{2}c{1,}d{x}$`, []string{"bbcd{x}", "aabbccd{x}"}, []string{"aaabbcd{x}", "bbd{x}"}},
		{`^(?P<id>[0-9a-f]{8})(?#hex)-`, []string{"0123abcd-"}, []string{"0123abcg-"}},
		{`^[]a-c^-]+$`, []string{"]", "ab^-"}, []string{"d"}},
		{`^[^]a]$`, []string{"b"}, []string{"]", "a"}},
		{`^[\w.]+\s\D[\d\-\b]$`, []string{"ä.b x-", "a\x1cb1", "a_٣ b\b"}, []string{"a 1-"}},
		{`\bnova\b`, []string{"/nova/", "nova"}, []string{"nova_x", "anova", "novaä"}},
		{`a\Bb`, []string{"ab"}, nil},
		{`^\x41\u00e4\U0001f600\0\101\/\t$`, []string{"Aä😀\x00A/\t"}, nil},
		{`(a*)*$`, []string{"", "b"}, nil},
		{`^(a?)*?b+?$`, []string{"aab", "b"}, []string{"a"}},
		{`a||b`, []string{""}, nil},
		{`^{`, nil, []string{"a"}},
		{`^a{,b{1`, []string{"a{,b{1"}, nil},
	} {
		p, err := compilePattern(tc.expr)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, s := range tc.matches {
			if !p.search(s) {
				t.Errorf("%q is not found in %q", tc.expr, s)
			}
		}
		for _, s := range tc.not {
			if p.search(s) {
				t.Errorf("%q is found in %q", tc.expr, s)
			}
		}
	}
}

func TestPatternsAreRefused(t *testing.T) {
	for expr, want := range map[string]string{
		`(?!x)`:               `"(?!x)": look-around is not supported`,
		`(?=x)`:               "look-around",
		`(?<=x)y`:             "look-around",
		`(?<!x)y`:             "look-around",
		`(a)\1`:               "back references are not supported",
		`(?P<a>x)(?P=a)`:      "back references",
		`(?i)x`:               "flags are not supported",
		`(?s:x)`:              "flags are not supported",
		`(a)?(?(1)b|c)`:       "conditions are not supported",
		`(?>a)`:               "this kind of group",
		`a*+`:                 "possessive",
		`a**`:                 "a repetition is repeated",
		`*a`:                  "nothing to repeat",
		`(|+)`:                "nothing to repeat",
		`^*`:                  "nothing to repeat",
		`(a`:                  "not closed",
		`(?#a`:                "not closed",
		`a)`:                  "not opened",
		`[a`:                  "bracket is not closed",
		`[]`:                  "bracket is not closed",
		`[b-a]`:               "a range in brackets is wrong",
		`[a-\d]`:              "a range in brackets is wrong",
		`\`:                   "ends in a backslash",
		`\y`:                  `the escape \y is not supported`,
		`\N{DASH}`:            `the escape \N is not supported`,
		`\x4`:                 "incomplete",
		`\x4g`:                "an escape is wrong",
		`a{3,2}`:              "wrong order",
		`a{99999999999}`:      "too large",
		`(((a{99}){99}){99})`: "too large",
		`(?P<>a)`:             "name of a group",
		strings.Repeat("(", 200) + strings.Repeat(")", 200): "nested too deeply",
	} {
		if _, err := compilePattern(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", expr, err, want)
		}
	}
}

func TestNoPatternTakesLong(t *testing.T) {
	p, err := compilePattern(`^(a+)+(a|a)*$`)
	check(t, err)
	begin := time.Now()
	if p.search(strings.Repeat("a", 2000) + "b") {
		t.Error("found")
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// research reads expressions and texts, and reports whether Python finds them: null if
// an expression is wrong.
const research = `
import json, re, sys, warnings
warnings.simplefilter("ignore")
def search(expr, text):
    try:
        return re.search(expr, text) is not None
    except re.error:
        return None
print(json.dumps([search(expr, text) for expr, text in json.load(sys.stdin)]))
`

func TestPatternsAsPython(t *testing.T) {
	parts := strings.Fields(`a a b b / . * + ? | | ( ) (?: ) [ab] [^a] [a-] ^ $ \b \B \w \d \. {2} {,1} {1,} { } [ ] - \Z \n ä 1 (?=a) (?!a) \1 (?i) *? +`)
	random := rand.New(rand.NewPCG(3, 4))
	var pairs [][2]string
	for range 20000 {
		var expr, s strings.Builder
		for range random.IntN(8) {
			expr.WriteString(parts[random.IntN(len(parts))])
		}
		for range random.IntN(6) {
			s.WriteRune([]rune("aab/.1ä\n")[random.IntN(8)])
		}
		pairs = append(pairs, [2]string{expr.String(), s.String()})
	}
	in, err := json.Marshal(pairs)
	check(t, err)
	cmd := exec.Command(python, "-c", research)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	check(t, err)
	var want []*bool
	check(t, json.Unmarshal(out, &want))
	compared := 0
	for i, pair := range pairs {
		expr, s := pair[0], pair[1]
		p, err := compilePattern(expr)
		unsupported := err != nil && strings.Contains(err.Error(), "supported")
		switch {
		case unsupported:
		case (err != nil) != (want[i] == nil):
			t.Errorf("%q: error %v, of Python: %v", expr, err, want[i] == nil)
		case err == nil && s == "" && strings.Contains(expr, `\B`): // no path is empty, and versions of Python differ
		case err == nil && p.search(s) != *want[i]:
			t.Errorf("%q in %q: %v, with Python: %v", expr, s, p.search(s), *want[i])
		case err == nil:
			compared++
		}
	}
	if len(want) != len(pairs) || compared < 5000 {
		t.Errorf("compared %d of %d", compared, len(want))
	}
}

// FuzzPattern compares with package regexp where both have the same rules.
func FuzzPattern(f *testing.F) {
	for _, expr := range []string{`a*(b|c)+?`, `^[^/]*/x{2,3}$`, `[]a-c]|\.`, `(?P<n>a)(?:b)`, `\bx\w`, `(((a*)*)*){9}`} {
		f.Add(expr, "ab/x.c")
	}
	differs := regexp.MustCompile(`(?s)\$|\\[^.*+?()|/\[\]{}]|\{,|\[\[|\(\?|\[[^]]*\[`)
	f.Fuzz(func(t *testing.T, expr, s string) {
		p, err := compilePattern(expr)
		if err != nil {
			return
		}
		got := p.search(s)
		ascii := func(s string) bool { return !slices.ContainsFunc([]byte(s), func(b byte) bool { return b >= 0x80 }) }
		if !ascii(expr) || !ascii(s) || differs.MatchString(expr) {
			return
		}
		if re, err := regexp.Compile(expr); err == nil && re.MatchString(s) != got {
			t.Errorf("%q in %q: %v, of package regexp: %v", expr, s, got, !got)
		}
	})
}
