package configs

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/kollet/kollet/configs/report"
)

// mode is for whom a template is executed.
type mode int

const (
	private mode = iota // for the service: secrets are their values
	public              // for people: secrets are their names
	spec                // for a container's definition: no secrets
)

// text is a template and where it came from.
type text struct {
	file    string // shown in errors
	key     string // in the node file, likewise
	service string
	body    string
	oneLine bool // secrets go into lines of their own: an INI file
}

// execution is one text being executed in one mode.
type execution struct {
	text
	r      *Renderer
	mode   mode
	vars   map[string]any  // with stand-ins for those that are missing
	gaveUp map[absent]bool // what stand-ins are used for
}

// execute executes a template. The problems are everything that is wrong with
// it; what it uses is remembered for Unused.
func (r *Renderer) execute(t text, m mode) (string, []error) {
	if !strings.Contains(t.body, "{{") {
		return t.body, nil
	}
	x := &execution{text: t, r: r, mode: m, vars: maps.Clone(r.in.Vars), gaveUp: map[absent]bool{}}
	// The name takes part in the errors, which locate cuts apart.
	tmpl, err := template.New("t").Option("missingkey=error").Funcs(x.funcs()).Parse(t.body)
	if err != nil {
		return "", []error{x.locate(err)}
	}
	uses := usesOf(tmpl, t.body)
	r.use(uses)
	var found []error
	for {
		var out strings.Builder
		err := tmpl.Execute(&out, x.data())
		if err == nil {
			return out.String(), append(found, x.noValue(out.String())...)
		}
		problem, goOn := x.explain(err, uses)
		if goOn || len(found) == 0 {
			found = append(found, problem)
		}
		// What else goes wrong beside a stand-in may be the stand-in's fault.
		if !goOn {
			return "", found
		}
	}
}

func (x *execution) data() map[string]any {
	return map[string]any{"vars": x.vars, "host": x.r.in.Host, "instance": x.r.in.Instance, "service": x.service}
}

// explain turns an error of the template engine into a problem. It reports
// whether execution can go on to find the next one.
func (x *execution) explain(err error, uses uses) (report.Problem, bool) {
	p := x.locate(err)
	var a *absent
	if errors.As(err, &a) {
		p.Text = x.r.redactor.Text(a.text)
		x.gaveUp[absent{kind: a.kind, name: a.name}] = true
		return p, true
	}
	m := missingKey.FindStringSubmatch(p.Text)
	if m == nil {
		return p, false
	}
	key, _ := strconv.Unquote(m[1])
	chain := uses.chain(p.Line, key)
	switch {
	case len(chain) > 1 && chain[0] == "vars" && chain[1] == key:
		p.Text = fmt.Sprintf("variable %q is not set; set vars.%s in the node file%s", key, key, report.DidYouMean(key, sorted(x.r.in.Vars)))
		x.vars[key] = ""
		return p, true
	case len(chain) > 0 && chain[0] == key:
		p.Text = fmt.Sprintf("there is no .%s; expected .vars, .host, .service or .instance", key)
	case len(chain) > 0 && chain[0] == "instance":
		p.Text = fmt.Sprintf("this machine's instance data has no %s; where it may be absent, use dig with a default", strings.Join(chain[1:slices.Index(chain, key)+1], "."))
	case len(chain) > 0:
		p.Text = fmt.Sprintf(".%s has no key %q", strings.Join(chain[:slices.Index(chain, key)], "."), key)
	default:
		p.Text = fmt.Sprintf("nothing here is called %q; where it may be absent, use get with a default", key)
	}
	return p, false
}

var (
	// template: t:LINE[:COLUMN]: [executing "NAME" at <NODE>: ]TEXT
	engineError = regexp.MustCompile(`(?s)^template: t:(\d+)(?::\d+)?: (?:executing ".*?" at <.*?>: )?(.*)$`)
	missingKey  = regexp.MustCompile(`map has no entry for key ("(?:[^"\\]|\\.)*")`)
	notDefined  = regexp.MustCompile(`^function "([^"]*)" not defined`)
)

// locate puts an error of the template engine at its place in the file.
func (x *execution) locate(err error) report.Problem {
	p := report.Problem{Place: report.Place{File: x.file}, Key: x.key, Text: x.r.redactor.Text(err.Error())}
	m := engineError.FindStringSubmatch(err.Error())
	if m == nil {
		return p
	}
	p.Line, _ = strconv.Atoi(m[1])
	p.Text = strings.ReplaceAll(strings.TrimSpace(x.r.redactor.Text(m[2])), "\n", " ")
	if f := notDefined.FindStringSubmatch(p.Text); f != nil {
		p.Text = fmt.Sprintf("there is no function %s%s", f[1], report.DidYouMean(f[1], sorted(x.funcs())))
	}
	return p
}

// noValue finds what the template engine writes for a nil that some function
// returned, which no service would take for a value.
func (x *execution) noValue(out string) []error {
	for line, number := range numbered(out) {
		if strings.Contains(line, "<no value>") {
			return []error{report.Problem{Place: report.Place{File: x.file}, Key: x.key, Text: fmt.Sprintf("line %d of what it renders to has an expression without a value (%s); use default", number, x.r.redactor.Text(strings.TrimSpace(line)))}}
		}
	}
	return nil
}

// numbered yields lines without their ends, and their numbers from 1.
func numbered(text string) func(yield func(string, int) bool) {
	return func(yield func(string, int) bool) {
		number := 0
		for line := range strings.Lines(text) {
			number++
			if !yield(strings.TrimRight(line, "\n"), number) {
				return
			}
		}
	}
}
