// Package reference describes the node file from its Go types as annotated YAML,
// for help. Its tests generate the manual's page and a JSON Schema for editors.
// The meaning of each key is the `doc` tag of its field.
package reference

import (
	"reflect"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
)

// field is one key of a mapping.
type field struct {
	key, doc string
	of       value
}

// value is the type of a key's value.
type value struct {
	kind   kind
	item   *value  // of a list, or of a mapping with names as keys
	fields []field // of a mapping with fixed keys
	short  string  // the short form, as text
}

type kind int

const (
	text kind = iota
	boolean
	number
	duration
	anything
	list
	names   // mapping with names as keys
	mapping // with fixed keys
)

// node is the whole node file.
func node() value { return describe(reflect.TypeFor[nodefile.Node]()) }

func describe(t reflect.Type) value {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return value{kind: duration}
	case t.Kind() == reflect.Pointer:
		return describe(t.Elem())
	}
	switch t.Kind() {
	case reflect.String:
		return value{kind: text}
	case reflect.Bool:
		return value{kind: boolean}
	case reflect.Int, reflect.Int64:
		return value{kind: number}
	case reflect.Interface:
		return value{kind: anything}
	case reflect.Slice:
		item := describe(t.Elem())
		return value{kind: list, item: &item}
	case reflect.Map:
		item := describe(t.Elem())
		return value{kind: names, item: &item}
	case reflect.Struct:
		v := value{kind: mapping}
		if t == reflect.TypeFor[nodefile.Volume]() {
			v.short = "SOURCE:TARGET[:OPTION,…], or TARGET for a tmpfs"
		}
		for f := range t.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if key != "" && key != "-" {
				v.fields = append(v.fields, field{key, f.Tag.Get("doc"), describe(f.Type)})
			}
		}
		return v
	}
	panic("a node file cannot hold " + t.String())
}
