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

// mode says who reads what a template renders to.
type mode int

const (
	private mode = iota // the service: secrets have their values
	public              // people: secrets are placeholders
	spec                // the engine, as a container's settings: secrets are errors
)

// text is a template and its origin.
type text struct {
	file    string // shown in errors
	key     string // in the node file, also shown in errors
	service string
	body    string
	oneLine bool // a secret must be a single line, as in an INI file
}

// execution is the execution of one text in one mode.
type execution struct {
	text
	r        *Renderer
	mode     mode
	vars     map[string]any   // with empty values for missing ones
	reported map[missing]bool // what was replaced by an empty value
}

func (r *Renderer) execution(t text, m mode) *execution {
	return &execution{text: t, r: r, mode: m, vars: maps.Clone(r.in.Vars), reported: map[missing]bool{}}
}

func (x *execution) parse() (*template.Template, error) {
	// The name is part of error texts, which locate parses.
	return template.New("t").Option("missingkey=error").Funcs(x.funcs()).Parse(x.body)
}

// execute executes a template and returns everything that is wrong with it. It
// records what the template refers to, for Unused.
func (r *Renderer) execute(t text, m mode) (string, []error) {
	if !strings.Contains(t.body, "{{") {
		return t.body, nil
	}
	x := r.execution(t, m)
	tmpl, err := x.parse()
	if err != nil {
		return "", []error{x.locate(err)}
	}
	refs := referencesOf(tmpl, t.body)
	r.markUsed(refs)
	var found []error
	for {
		var out strings.Builder
		err := tmpl.Execute(&out, x.data())
		if err == nil {
			return out.String(), append(found, x.noValue(out.String())...)
		}
		problem, proceed := x.explain(err, refs)
		if proceed || len(found) == 0 {
			found = append(found, problem)
		}
		// Other errors may be caused by an empty value that replaced a missing
		// one, so only the first of them is reported.
		if !proceed {
			return "", found
		}
	}
}

func (x *execution) data() map[string]any {
	return map[string]any{"vars": x.vars, "host": x.r.in.Host, "instance": x.r.in.Instance, "service": x.service}
}

// ErrInstanceData is the cause of a problem about instance data that the machine
// does not have.
var ErrInstanceData = errors.New("no such instance data")

// explain turns an error of the template engine into a problem, and reports
// whether execution can be repeated to find the next one.
func (x *execution) explain(err error, refs references) (report.Problem, bool) {
	p := x.locate(err)
	if lacks, ok := errors.AsType[*missing](err); ok {
		p.Text = x.r.redactor.Text(lacks.text)
		x.reported[missing{kind: lacks.kind, name: lacks.name}] = true
		return p, true
	}
	m := missingKey.FindStringSubmatch(p.Text)
	if m == nil {
		return p, false
	}
	key, _ := strconv.Unquote(m[1])
	chain := refs.chain(p.Line, key)
	switch {
	case len(chain) > 1 && chain[0] == "vars" && chain[1] == key:
		p.Text = fmt.Sprintf("variable %q is not set; set vars.%s in the node file%s", key, key, report.DidYouMean(key, sorted(x.r.in.Vars)))
		x.vars[key] = ""
		return p, true
	case len(chain) > 0 && chain[0] == key:
		p.Text = fmt.Sprintf("there is no .%s; expected .vars, .host, .service or .instance", key)
	case len(chain) > 0 && chain[0] == "instance":
		p.Err = ErrInstanceData
		p.Text = fmt.Sprintf("the machine's instance data has no %s; if that is valid, use dig with a default", strings.Join(chain[1:slices.Index(chain, key)+1], "."))
	case len(chain) > 0:
		p.Text = fmt.Sprintf(".%s has no key %q", strings.Join(chain[:slices.Index(chain, key)], "."), key)
	default:
		p.Text = fmt.Sprintf("no key %q; if that is valid, use get with a default", key)
	}
	return p, false
}

var (
	// template: t:LINE[:COLUMN]: [executing "NAME" at <NODE>: ]TEXT
	engineError = regexp.MustCompile(`(?s)^template: t:(\d+)(?::\d+)?: (?:executing ".*?" at <.*?>: )?(.*)$`)
	missingKey  = regexp.MustCompile(`map has no entry for key ("(?:[^"\\]|\\.)*")`)
	notDefined  = regexp.MustCompile(`^function "([^"]*)" not defined`)
)

// locate returns an error of the template engine with its place in the file.
func (x *execution) locate(err error) report.Problem {
	p := report.Problem{Place: report.Place{File: x.file}, Key: x.key, Text: x.r.redactor.Text(err.Error())}
	m := engineError.FindStringSubmatch(err.Error())
	if m == nil {
		return p
	}
	p.Line, _ = strconv.Atoi(m[1])
	p.Text = strings.ReplaceAll(strings.TrimSpace(x.r.redactor.Text(m[2])), "\n", " ")
	p.Text = strings.TrimPrefix(p.Text, "error calling fail: ") // the template's own words
	if f := notDefined.FindStringSubmatch(p.Text); f != nil {
		p.Text = fmt.Sprintf("there is no function %s%s", f[1], report.DidYouMean(f[1], sorted(x.funcs())))
	}
	return p
}

// noValue finds what the template engine writes for a nil value, which no service
// accepts.
func (x *execution) noValue(out string) []error {
	for line, number := range numbered(out) {
		if strings.Contains(line, "<no value>") {
			return []error{report.Problem{Place: report.Place{File: x.file}, Key: x.key, Text: fmt.Sprintf("line %d of the result has an expression without a value (%s); use default", number, x.r.redactor.Text(strings.TrimSpace(line)))}}
		}
	}
	return nil
}

// numbered yields the lines of a text without line ends, and their numbers from 1.
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
