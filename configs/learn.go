package configs

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"text/template"
)

// builtins are the functions of text/template that return text, implemented as
// its documentation says.
var builtins = template.FuncMap{
	"print":    fmt.Sprint,
	"printf":   fmt.Sprintf,
	"println":  fmt.Sprintln,
	"html":     template.HTMLEscaper,
	"js":       template.JSEscaper,
	"urlquery": template.URLQueryEscaper,
}

// selectors are the functions that return an argument, or elements of a list or
// map, unchanged, and those whose result reveals nothing about a secret.
var selectors = []string{
	"append", "coalesce", "compact", "concat", "contains", "default", "dict",
	"dig", "empty", "fail", "first", "get", "has", "hasKey", "hasPrefix",
	"hasSuffix", "initial", "kindIs", "kindOf", "last", "list", "omit", "pick",
	"prepend", "required", "rest", "reverse", "secret", "sortAlpha", "ternary",
	"uniq", "without",
}

// learn wraps the functions so that the redactor learns what they return for a
// secret. A service may log it, and no list of forms can include every part or
// combination that a template creates.
func (x *execution) learn(funcs template.FuncMap) {
	maps.Copy(funcs, builtins)
	for name, f := range funcs {
		if !slices.Contains(selectors, name) {
			funcs[name] = x.learning(reflect.ValueOf(f))
		}
	}
}

func (x *execution) learning(f reflect.Value) any {
	call := f.Call
	if f.Type().IsVariadic() {
		call = f.CallSlice
	}
	return reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
		out := call(args)
		if made := texts(out[0]); len(made) > 0 {
			var from []string
			for _, arg := range args {
				from = append(from, texts(arg)...)
			}
			for _, text := range made {
				x.r.redactor.Learn(text, from...)
			}
		}
		return out
	}).Interface()
}

// texts returns the strings and numbers in a value as text.
func texts(v reflect.Value) []string {
	switch v.Kind() {
	case reflect.String:
		return []string{v.String()}
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			return texts(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return []string{fmt.Sprintf("%s", v.Interface())}
		}
		var all []string
		for i := range v.Len() {
			all = append(all, texts(v.Index(i))...)
		}
		return all
	case reflect.Map:
		var all []string
		for _, key := range v.MapKeys() {
			all = append(append(all, texts(key)...), texts(v.MapIndex(key))...)
		}
		return all
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return []string{fmt.Sprint(v.Interface())}
	}
	return nil
}
