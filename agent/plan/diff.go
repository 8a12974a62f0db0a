package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/containers"
)

// specChanges lists the settings in which two specs differ, as their JSON names
// and values.
func specChanges(old, new containers.Spec) []string {
	var changes []string
	before, after := reflect.ValueOf(old.Canonical()), reflect.ValueOf(new.Canonical())
	for i := range before.NumField() {
		name, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("json"), ",")
		changes = append(changes, valueChanges(name, before.Field(i).Interface(), after.Field(i).Interface())...)
	}
	return changes
}

// mayHavePassword has the settings in which an operator may have written one.
var mayHavePassword = map[string]bool{"environment": true, "entrypoint": true, "command": true, "program": true, "warmup": true}

// valueChanges says how a value differs, if it does. Of lists and mappings it
// names the entries alone that do. It masks what looks like a password: those of kolla-ansible's
// containers are no secrets that kollet knows.
func valueChanges(name string, old, new any) []string {
	a, b := entries(old), entries(new)
	var lost []string
	won := slices.Clone(b)
	for _, e := range a {
		if at := slices.Index(won, e); at >= 0 {
			won = slices.Delete(won, at, at+1)
		} else {
			lost = append(lost, e)
		}
	}
	if mayHavePassword[name] {
		for _, all := range [][]string{lost, won} {
			for i, e := range all {
				all[i] = redact.Mask(e)
			}
		}
	}
	switch {
	case len(lost) == 0 && len(won) == 0:
		if !slices.Equal(a, b) {
			return []string{name + ": order changed"}
		}
		return nil
	case len(lost) == 0:
		return []string{fmt.Sprintf("%s: now also %s", name, strings.Join(won, ", "))}
	case len(won) == 0:
		return []string{fmt.Sprintf("%s: no longer %s", name, strings.Join(lost, ", "))}
	}
	return []string{fmt.Sprintf("%s: %s, now %s", name, strings.Join(lost, ", "), strings.Join(won, ", "))}
}

// entries takes a value apart for comparison: a list into its items, a mapping
// into KEY=VALUE, anything else into itself.
func entries(value any) []string {
	if s, ok := value.(interface{ Settings() []string }); ok {
		return s.Settings()
	}
	v := reflect.ValueOf(value)
	var out []string
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			out = append(out, show(v.Index(i).Interface()))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			out = append(out, fmt.Sprintf("%v=%v", key, v.MapIndex(key)))
		}
		slices.Sort(out)
	default:
		out = append(out, show(value))
	}
	return out
}

func show(value any) string {
	if text, ok := value.(string); ok {
		if text == "" {
			return "unset"
		}
		return text
	}
	if m, ok := value.(containers.Mount); ok {
		return m.String()
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}
