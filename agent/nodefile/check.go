package nodefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/configs/report"
)

// document is one YAML document with the places of its keys.
type document struct {
	name     string
	root     *yaml.Node
	places   map[string]report.Place
	zeros    map[string]bool // durations that are set to zero, as opposed to omitted
	problems *report.Problems
}

// parse reads a document and checks every key and value against the type of
// into, which it does not fill. It walks the tree itself to report each problem
// with its column and key: errors of yaml.v3 have lines only, and stop at the
// first wrong mapping.
func parse(name string, data []byte, into any, problems *report.Problems) *document {
	d := &document{name: name, places: map[string]report.Place{}, zeros: map[string]bool{}, problems: problems}
	before := problems.Len()
	if d.root = d.parseOne(data); d.root != nil {
		d.checkKeys(d.root, "")
	}
	if problems.Len() > before {
		return nil
	}
	// Decoding without a type finds aliases that contain themselves, and so many
	// aliases that following them would not end. check relies on this.
	var types *yaml.TypeError
	if err := d.root.Decode(new(any)); err != nil && !errors.As(err, &types) {
		problems.Add(syntax(name, err))
		return nil
	}
	d.check(d.root, reflect.TypeOf(into), "")
	if problems.Len() > before {
		return nil
	}
	return d
}

// parseOne parses a file that holds exactly one document, and returns its root.
func (d *document) parseOne(data []byte) *yaml.Node {
	var doc, more yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(data))
	err := in.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF), err == nil && null(doc.Content[0]):
		d.problems.Addf(report.Place{File: d.name}, "", "the file is empty; write what this node should run (see `kollet help node-file`)")
		return nil
	case err != nil:
		d.problems.Add(syntax(d.name, err))
		return nil
	}
	if err := in.Decode(&more); err == nil {
		d.problems.Addf(d.at(&more), "", "a second document begins here; a node file is one document, remove the line `---`")
	} else if !errors.Is(err, io.EOF) {
		d.problems.Add(syntax(d.name, err))
	}
	return doc.Content[0]
}

func null(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// checkKeys reports keys that are not text: they have no path, and yaml.v3
// silently drops a null key.
func (d *document) checkKeys(n *yaml.Node, key string) {
	for i, child := range n.Content {
		switch {
		case n.Kind != yaml.MappingNode:
			d.checkKeys(child, fmt.Sprintf("%s[%d]", key, i))
		case i%2 == 1:
			d.checkKeys(child, join(key, n.Content[i-1].Value))
		case child.Kind == yaml.AliasNode:
			d.problems.Addf(d.at(child), key, "a key cannot be an alias; write it out instead of *%s", child.Value)
		case child.Kind != yaml.ScalarNode || null(child):
			d.problems.Addf(d.at(child), key, "expected text as key; put it in quotes if it is meant as text")
		}
	}
}

func join(key, below string) string {
	if key == "" {
		return below
	}
	return key + "." + below
}

// syntax converts yaml.v3's "yaml: line 3: did not find …" to a Problem, and a list of
// values of the wrong type to one line.
func syntax(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if types, ok := errors.AsType[*yaml.TypeError](err); ok {
		text = strings.Join(types.Errors, "; ")
	}
	at := report.Place{File: name}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, rest, found := strings.Cut(rest, ": ")
		if line, err := strconv.Atoi(number); err == nil && found {
			at.Line, at.Column, text = line, 1, rest
		}
	}
	if text == "found character that cannot start any token" {
		text += "; indent with spaces instead of tabs, and quote text that begins with @, ` or %"
	}
	return report.Problem{Place: at, Text: "not valid YAML: " + text}
}

func (d *document) at(n *yaml.Node) report.Place {
	return report.Place{File: d.name, Line: n.Line, Column: n.Column}
}

// place returns the place of a key, or of its nearest parent.
func (d *document) place(key string) report.Place {
	for ; key != ""; key = parentKey(key) {
		if at, ok := d.places[key]; ok {
			return at
		}
	}
	return report.Place{File: d.name}
}

// parentKey returns the parent of a key; empty at the top.
func parentKey(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }

var (
	durationType   = reflect.TypeFor[time.Duration]()
	dimensionsType = reflect.TypeFor[Dimensions]()
)

func (d *document) check(n *yaml.Node, t reflect.Type, key string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if null(n) {
		return
	}
	switch {
	case t == durationType:
		d.checkDuration(n, key)
	case t == volumeType && n.Kind == yaml.ScalarNode:
		if _, err := parseVolume(n.Value); err != nil {
			d.problems.Addf(d.at(n), key, "%v", err)
		}
	case t.Kind() == reflect.Struct:
		d.checkStruct(n, t, key)
	case t.Kind() == reflect.Map:
		if d.want(n, yaml.MappingNode, key) {
			d.eachPair(n, key, func(_, value *yaml.Node, path string) {
				if t.Elem().Kind() == reflect.String && null(value) {
					d.problems.Addf(d.at(value), path, `expected text; write "" for an empty one`)
				}
				d.check(value, t.Elem(), path)
			})
		}
	case t.Kind() == reflect.Slice:
		if d.want(n, yaml.SequenceNode, key) {
			for i, item := range n.Content {
				path := fmt.Sprintf("%s[%d]", key, i)
				d.places[path] = d.at(item)
				if null(item) {
					d.problems.Addf(d.at(item), path, "an empty entry; drop it")
				}
				d.check(item, t.Elem(), path)
			}
		}
	case t.Kind() == reflect.Interface:
		d.checkAny(n, t, key)
	default:
		// yaml.v3 truncates a fraction where an integer is expected.
		cut := t.Kind() != reflect.String && n.ShortTag() == "!!float"
		if d.want(n, yaml.ScalarNode, key) && (cut || n.Decode(reflect.New(t).Interface()) != nil) {
			d.problems.Addf(d.at(n), key, "expected %s, got %q", kindName(t), n.Value)
		}
	}
}

// checkAny checks a value of any type: only its keys can be wrong.
func (d *document) checkAny(n *yaml.Node, t reflect.Type, key string) {
	switch n.Kind {
	case yaml.MappingNode:
		d.eachPair(n, key, func(_, value *yaml.Node, path string) { d.check(value, t, path) })
	case yaml.SequenceNode:
		for i, item := range n.Content {
			d.check(item, t, fmt.Sprintf("%s[%d]", key, i))
		}
	}
}

func (d *document) checkDuration(n *yaml.Node, key string) {
	var value time.Duration
	err := n.Decode(&value)
	if n.Kind != yaml.ScalarNode || err != nil || value < 0 {
		d.problems.Addf(d.at(n), key, "expected a duration with its unit, such as 2s or 1m30s, got %q", n.Value)
	}
	d.zeros[key] = value == 0
}

// elsewhere maps keys of other tools to the key with the same meaning.
var elsewhere = map[string]string{
	"after":    "depends_on", // systemd
	"together": "group",
	"prepare":  "permissions",
	"mounts":   "volumes", "binds": "volumes",
	"env": "environment", "args": "command",
	"workdir": "working_dir", "cwd": "working_dir",
	"probe": "healthcheck", "livenessProbe": "healthcheck", "readinessProbe": "healthcheck",
	"every": "interval", "periodSeconds": "interval",
	"within": "start_period", "initialDelaySeconds": "start_period",
	"limit": "timeout", "timeoutSeconds": "timeout",
	"stop_grace": "stop_grace_period", "terminationGracePeriodSeconds": "stop_grace_period",
	"imagePullPolicy": "pull_policy",
	"limits":          "dimensions", "resources": "dimensions",
}

// notHere says of kolla-ansible's other dimensions what to write instead.
var notHere = map[string]string{
	"ulimits":       "it is a key of the service, with a list, such as [{name: nofile, soft: 1024, hard: 1024}]",
	"kernel_memory": "Linux no longer has this limit, mem_limit includes the kernel's memory; remove it",
}

func (d *document) checkStruct(n *yaml.Node, t reflect.Type, key string) {
	if !d.want(n, yaml.MappingNode, key) {
		return
	}
	fields := map[string]reflect.Type{}
	var names []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name != "" && name != "-" {
			fields[name] = field.Type
			names = append(names, name)
		}
	}
	d.eachPair(n, key, func(k, value *yaml.Node, path string) {
		field, ok := fields[k.Value]
		if !ok {
			if known := elsewhere[k.Value]; fields[known] != nil {
				d.problems.Addf(d.at(k), path, "unknown key; did you mean %s?", known)
				return
			}
			if t == dimensionsType && notHere[k.Value] != "" {
				d.problems.Addf(d.at(k), path, "unknown key; %s", notHere[k.Value])
				return
			}
			d.problems.Addf(d.at(k), path, "unknown key%s", report.DidYouMean(k.Value, names))
			return
		}
		d.check(value, field, path)
	})
	// A key without a value is ignored: decoding it would empty a list or mapping
	// of the profile.
	var said []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !null(n.Content[i+1]) {
			said = append(said, n.Content[i], n.Content[i+1])
		}
	}
	n.Content = said
}

func (d *document) eachPair(n *yaml.Node, key string, visit func(k, value *yaml.Node, path string)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		path := join(key, k.Value)
		if k.Tag == "!!merge" {
			d.problems.Addf(d.at(k), path, "merge keys are not supported; write the keys out")
			continue
		}
		if line, twice := seen[k.Value]; twice {
			d.problems.Addf(d.at(k), path, "duplicate key; it is already set on line %d", line)
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
