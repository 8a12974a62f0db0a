package report_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/kollet/kollet/configs/report"
)

func TestProblem(t *testing.T) {
	for _, c := range []struct {
		problem report.Problem
		want    string
	}{
		{report.Problem{Text: "bad"}, "bad"},
		{report.Problem{Place: report.Place{File: "node.yaml"}, Text: "empty"}, "node.yaml: empty"},
		{report.Problem{Place: report.Place{File: "nova.conf", Line: 3}, Key: "services.a", Text: "bad"}, "nova.conf:3: services.a: bad"},
		{report.Problem{Place: report.Place{File: "node.yaml", Line: 3, Column: 7}, Key: "a.b", Text: "bad"}, "node.yaml:3:7: a.b: bad"},
		{report.Problem{Place: report.Place{File: "a.b"}, Key: "a.b", Text: "bad"}, "a.b: bad"},
		{report.Problem{Key: "vars.x", Text: "nothing uses it"}, "vars.x: nothing uses it"},
		{report.Problem{Key: "vars.é\n\x1b[2J", Text: "unknown key"}, `"vars.é\n\x1b[2J": unknown key`},
		{report.Wrap(report.Place{File: "f", Line: 1, Column: 2}, errors.New("bad")), "f:1:2: bad"},
	} {
		if got := c.problem.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestOrder(t *testing.T) {
	var p report.Problems
	at := func(file string, line, column int) report.Place {
		return report.Place{File: file, Line: line, Column: column}
	}
	p.Addf(at("node", 10, 9), "", "c")
	p.Add(errors.New("a flag"), nil)
	p.Addf(at("profile", 5, 1), "", "d")
	p.Addf(at("node", 10, 1), "", "b")
	p.Add(fmt.Errorf("wrapped: %w", report.Problem{Place: at("node", 3, 1), Text: "a"}))
	want := "wrapped: node:3:1: a\nnode:10:1: b\nnode:10:9: c\nprofile:5:1: d\na flag"
	if got := p.Err().Error(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if p.Len() != 5 {
		t.Errorf("got %d problems, want 5", p.Len())
	}
}

func TestNoProblems(t *testing.T) {
	var p report.Problems
	p.Add(nil, nil)
	if p.Err() != nil || p.Len() != 0 {
		t.Errorf("got %v, %d", p.Err(), p.Len())
	}
}

// A collection that is added to another is taken apart, so that its problems
// are sorted among the others.
func TestProblemsOfProblems(t *testing.T) {
	var inner, outer report.Problems
	inner.Addf(report.Place{File: "b", Line: 2}, "", "second")
	inner.Addf(report.Place{File: "b", Line: 1}, "", "first")
	outer.Addf(report.Place{File: "b", Line: 3}, "", "third")
	outer.Add(inner.Err())
	if want := "b:1: first\nb:2: second\nb:3: third"; outer.Err().Error() != want || outer.Len() != 3 {
		t.Errorf("got %d problems:\n%s\nwant:\n%s", outer.Len(), outer.Err(), want)
	}
}

func TestCausesAreFound(t *testing.T) {
	_, cause := os.ReadFile("/no/such/file")
	var p report.Problems
	p.Addf(report.Place{}, "a", "other")
	p.Addf(report.Place{File: "f", Line: 4}, "secrets.x", "cannot be read: %w", cause)
	err := fmt.Errorf("load: %w", p.Err())
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("errors.Is does not find the cause")
	}
	if pathError, ok := errors.AsType[*fs.PathError](err); !ok || pathError.Path != "/no/such/file" {
		t.Errorf("errors.As found %v", pathError)
	}
	if problem, ok := errors.AsType[report.Problem](err); !ok || problem.Key != "a" {
		t.Errorf("errors.As found %+v", problem)
	}
}

func TestNearest(t *testing.T) {
	commands := []string{"bootstrap", "gc", "plan", "pull", "status", "upgrade"}
	for got, want := range map[string]string{
		"upgrdae": "upgrade", "UPGRADE": "upgrade", "statsu": "status", "pul": "pull", "plam": "plan",
		"up": "upgrade", "boot": "bootstrap", "u": "", "": "", "x": "", "entirely-different": "",
	} {
		if name := report.Nearest(got, commands); name != want {
			t.Errorf("%q: got %q, want %q", got, name, want)
		}
	}
	if name := report.Nearest("foo", []string{"fooo", "Foo"}); name != "Foo" {
		t.Errorf("got %q, want the same name in other case", name)
	}
	if got := report.DidYouMean("imagse", []string{"engine", "images"}); got != "; did you mean images?" {
		t.Errorf("got %q", got)
	}
	if got := report.DidYouMean("x", nil); got != "" {
		t.Errorf("got %q", got)
	}
}

func FuzzNearest(f *testing.F) {
	f.Add("upgrdae", "upgrade", "plan")
	f.Add("\xff", "", "İ")
	f.Fuzz(func(t *testing.T, got, a, b string) {
		name := report.Nearest(got, []string{a, b})
		if name != "" && name != a && name != b {
			t.Errorf("%q is none of the names", name)
		}
		if got != "" && strings.ToLower(got) == strings.ToLower(a) && name == "" { //nolint:staticcheck // Nearest folds case in this way
			t.Errorf("%q: found nothing, and %q is the same", got, a)
		}
	})
}
