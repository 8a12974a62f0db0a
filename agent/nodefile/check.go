package nodefile

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"gopkg.in/yaml.v3"
)

// document is one YAML document and where each of its keys stands.
type document struct {
	name     string
	root     *yaml.Node
	places   map[string]Place
	problems *Problems
}

// parse reads a document and checks every key and value of it against the type
// of into, which it does not fill. Going over the tree by hand is what gives
// each problem its column and its path: yaml.v3's own errors have lines only,
// and stop at the first mapping that is wrong.
func parse(name string, data []byte, into any, problems *Problems) *document {
	d := &document{name: name, places: map[string]Place{}, problems: problems}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		problems.Add(syntax(name, err))
		return nil
	}
	if len(doc.Content) == 0 {
		problems.Addf(Place{File: name}, "", "the file is empty; it needs at least `profile:` or `services:`")
		return nil
	}
	d.root = doc.Content[0]
	before := problems.Len()
	d.check(d.root, reflect.TypeOf(into), "")
	if problems.Len() > before {
		return nil
	}
	return d
}

// syntax turns yaml.v3's "yaml: line 3: did not find …" into a Problem.
func syntax(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	at := Place{File: name}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, rest, found := strings.Cut(rest, ": ")
		if line, err := strconv.Atoi(number); err == nil && found {
			at.Line, at.Column, text = line, 1, rest
		}
	}
	return Problem{Place: at, Text: "not valid YAML: " + text}
}

func (d *document) at(n *yaml.Node) Place {
	return Place{File: d.name, Line: n.Line, Column: n.Column}
}

// place returns where a key stands, or the nearest key above it.
func (d *document) place(key string) (Place, bool) {
	for key != "" {
		if at, ok := d.places[key]; ok {
			return at, true
		}
		cut := strings.LastIndexAny(key, ".[")
		if cut < 0 {
			break
		}
		key = key[:cut]
	}
	return Place{}, false
}

var durationType = reflect.TypeFor[time.Duration]()

func (d *document) check(n *yaml.Node, t reflect.Type, key string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Tag == "!!null" {
		return
	}
	switch {
	case t == durationType:
		d.checkDuration(n, key)
	case t == mountType && n.Kind == yaml.ScalarNode:
		if _, err := shortMount(n.Value); err != nil {
			d.problems.Addf(d.at(n), key, "%v", err)
		}
	case t.Kind() == reflect.Struct:
		d.checkStruct(n, t, key)
	case t.Kind() == reflect.Map:
		if d.want(n, yaml.MappingNode, key) {
			d.eachPair(n, key, func(_, value *yaml.Node, path string) { d.check(value, t.Elem(), path) })
		}
	case t.Kind() == reflect.Slice:
		if d.want(n, yaml.SequenceNode, key) {
			for i, item := range n.Content {
				path := fmt.Sprintf("%s[%d]", key, i)
				d.places[path] = d.at(item)
				d.check(item, t.Elem(), path)
			}
		}
	case t.Kind() == reflect.Interface:
	default:
		if d.want(n, yaml.ScalarNode, key) && n.Decode(reflect.New(t).Interface()) != nil {
			d.problems.Addf(d.at(n), key, "expected %s, got %q", kindName(t), n.Value)
		}
	}
}

func (d *document) checkDuration(n *yaml.Node, key string) {
	if _, err := time.ParseDuration(n.Value); n.Kind != yaml.ScalarNode || err != nil || n.Value == "0" {
		d.problems.Addf(d.at(n), key, "expected a duration with its unit, such as 2s or 1m30s, got %q", n.Value)
	}
}

func (d *document) checkStruct(n *yaml.Node, t reflect.Type, key string) {
	if !d.want(n, yaml.MappingNode, key) {
		return
	}
	fields := map[string]reflect.Type{}
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name != "" && name != "-" {
			fields[name] = t.Field(i).Type
			names = append(names, name)
		}
	}
	d.eachPair(n, key, func(k, value *yaml.Node, path string) {
		field, ok := fields[k.Value]
		if !ok {
			d.problems.Addf(d.at(k), path, "unknown key%s", hint(k.Value, names))
			return
		}
		d.check(value, field, path)
	})
}

func (d *document) eachPair(n *yaml.Node, key string, visit func(k, value *yaml.Node, path string)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		path := k.Value
		if key != "" {
			path = key + "." + k.Value
		}
		if k.Tag == "!!merge" {
			d.problems.Addf(d.at(k), path, "merge keys are not supported; write the keys out")
			continue
		}
		if line, twice := seen[k.Value]; twice {
			d.problems.Addf(d.at(k), path, "key stands twice; it is already set on line %d", line)
			continue
		}
		seen[k.Value] = k.Line
		d.places[path] = d.at(k)
		visit(k, value, path)
	}
}

var nodeKinds = map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list", yaml.ScalarNode: "a single value"}

func (d *document) want(n *yaml.Node, kind yaml.Kind, key string) bool {
	if n.Kind == kind {
		return true
	}
	got := nodeKinds[n.Kind]
	if n.Kind == yaml.ScalarNode {
		got = strconv.Quote(n.Value)
	}
	d.problems.Addf(d.at(n), key, "expected %s, got %s", nodeKinds[kind], got)
	return false
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	default:
		return "text"
	}
}

// hint proposes the name that was probably meant.
func hint(got string, names []string) string {
	best, distance := "", len(got)/2+1
	for _, name := range names {
		if n := levenshtein.ComputeDistance(got, name); n < distance {
			best, distance = name, n
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}
