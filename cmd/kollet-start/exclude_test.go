package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// excluding are expressions of exclude and texts, and whether they are found. Where
// Python's are not, otherwise says why: docs/kolla.md has these differences.
var excluding = []struct {
	expr, text string
	found      bool
	otherwise  string
}{
	{expr: "", text: "/a", found: true},
	{expr: "x", text: "/a/x.conf", found: true},
	{expr: "x", text: "/a"},
	{expr: `^/srv/`, text: "/srv/a", found: true},
	{expr: `^/srv/`, text: "/a/srv/"},
	{expr: `\.git$`, text: "/a/.git", found: true},
	{expr: `\.git$`, text: "/a/.gitignore"},
	{expr: `\.git$`, text: "/agit"},
	{expr: `a.b`, text: "aäb", found: true},
	{expr: `a.b`, text: "a\nb"},
	{expr: `(disk|console)\.(log|config)?$`, text: "disk.log", found: true},
	{expr: `(disk|console)\.(log|config)?$`, text: "disk"},
	{expr: `^(?:a|b){2,3}$`, text: "bab", found: true},
	{expr: `^(?:a|b){2,3}$`, text: "abab"},
	{expr: `^b{2}c{1,}d{x}$`, text: "bbcd{x}", found: true},
	{expr: `^(?P<id>[0-9a-f]{8})-`, text: "0123abcd-", found: true},
	{expr: `^[]a-c^-]+$`, text: "]ab^-", found: true},
	{expr: `^[^]a]$`, text: "]"},
	{expr: `^[\w.]+\s\D[\d\-]$`, text: "a.b x-", found: true},
	{expr: `\bnova\b`, text: "/nova/", found: true},
	{expr: `\bnova\b`, text: "nova_x"},
	{expr: `a\Bb`, text: "ab", found: true},
	{expr: `^\x41\101\/\t$`, text: "AA/\t", found: true},
	{expr: `(a*)*$`, text: "b", found: true},
	{expr: `(?i)NOVA`, text: "/nova", found: true},
	{expr: `^(a+)+(a|a)*$`, text: strings.Repeat("a", 20) + "b"},

	{expr: `a$`, text: "a\n", otherwise: "$ before a final newline"},
	{expr: `^\w$`, text: "ä", otherwise: "not ASCII"},
	{expr: `^\d$`, text: "٣", otherwise: "not ASCII"},
	{expr: `a\s`, text: "a\u00a0", otherwise: "not ASCII"},
	{expr: `a\s`, text: "a\v", otherwise: "a vertical tab is no space"},
	{expr: `a\b`, text: "aä", found: true, otherwise: "not ASCII"},
	{expr: `^a{,2}$`, text: "aa", otherwise: "{,2} is literal"},
	{expr: `^[[:alpha:]]$`, text: "x", found: true, otherwise: "a class of POSIX"},
}

func TestExclude(t *testing.T) {
	for _, tc := range excluding {
		p, err := regexp.Compile(tc.expr)
		check(t, err)
		if got := (rule{exclude: []*regexp.Regexp{p}}).excludes(tc.text); got != tc.found {
			t.Errorf("%q in %q: %v, want %v", tc.expr, tc.text, got, tc.found)
		}
	}
}

func TestExcludeIsRefused(t *testing.T) {
	for _, expr := range []string{
		`(?!x)`, `(?=x)`, `(?<=x)y`, `(?<!x)y`, `(a)\1`, `(?P<a>x)(?P=a)`, `(a)?(?(1)b|c)`, `(?>a)`, `a*+`, `(?x)a`,
		`(?#x)`, `\Z`, `[\b]`, `\u00e4`, `\N{DASH}`, `a{1001}`,
		`a**`, `*a`, `(|+)`, `(a`, `a)`, `[a`, `[]`, `[b-a]`, `[a-\d]`, `\`, `\y`, `\x4`, `\x4g`, `a{3,2}`, `(((a{99}){99}){99})`, `(?P<>a)`,
	} {
		quoted, err := json.Marshal(expr)
		check(t, err)
		_, err = parseConfig([]byte(`{"command": "", "permissions": [{"path": "/a", "owner": "root", "exclude": ["x", ` + string(quoted) + `]}]}`))
		if err == nil || !strings.HasPrefix(err.Error(), "permissions[0]: exclude: entry 1: ") {
			t.Errorf("%s: got error %v", expr, err)
		}
	}
}

// research reads expressions and texts, and reports whether Python finds them.
const research = `
import json, re, sys, warnings
warnings.simplefilter("ignore")
print(json.dumps([re.search(expr, text) is not None for expr, text in json.load(sys.stdin)]))
`

func TestExcludeAsPython(t *testing.T) {
	var pairs [][2]string
	for _, tc := range excluding {
		pairs = append(pairs, [2]string{tc.expr, tc.text})
	}
	in, err := json.Marshal(pairs)
	check(t, err)
	cmd := exec.Command(python, "-c", research)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	check(t, err)
	var found []bool
	check(t, json.Unmarshal(out, &found))
	for i, tc := range excluding {
		if (found[i] == tc.found) != (tc.otherwise == "") {
			t.Errorf("%q in %q: %v, with Python: %v; expected difference: %q", tc.expr, tc.text, tc.found, found[i], tc.otherwise)
		}
	}
}
