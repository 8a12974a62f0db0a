package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// yaml writes a configuration as people do, and as programs do.
func (g generator) yaml(c map[string]any) string {
	w := yamlWriter{generator: g}
	w.text.WriteString(g.one("", "---\n", "# configuration\n", "---\n\n"))
	w.mapping(c, "")
	w.text.WriteString(g.one("", "", "...\n", "# end\n"))
	return w.text.String()
}

type yamlWriter struct {
	generator
	text  strings.Builder
	owned bool // an owner has an anchor
}

// mapping writes keys in any order, each in a line of its own. The first follows what is in
// its line.
func (w *yamlWriter) mapping(m map[string]any, indent string) {
	keys := slices.Sorted(maps.Keys(m))
	w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	if w.chance(2) && len(keys) > 0 {
		keys = append(keys, keys[0])
	}
	for i, key := range keys {
		if i > 0 || indent == "" {
			w.text.WriteString(indent)
		}
		w.text.WriteString(w.one(key, key, `"`+key+`"`, "'"+key+"'") + ":")
		w.value(m[key], indent)
	}
}

func (w *yamlWriter) value(v any, indent string) {
	list, ok := items(v)
	switch {
	case ok && (len(list) == 0 || w.chance(20)):
		w.text.WriteString(" " + w.flow(v) + "\n")
	case ok:
		w.text.WriteString(w.one("", " # a list") + "\n")
		w.list(list, indent+w.one("", "  "))
	case w.chance(5) && isText(v):
		w.text.WriteString(w.one(" |-", " >-") + "\n" + indent + w.one("  ", "   ") + v.(string) + "\n")
	default:
		w.text.WriteString(" " + w.scalar(v) + w.one("\n", "\n", " # "+w.one("x", `"`, "a: b")+"\n", "\n\n"))
	}
}

// isText reports whether a value is text in one line.
func isText(v any) bool {
	text, ok := v.(string)
	return ok && text != "" && !strings.Contains(text, "\n")
}

func (w *yamlWriter) list(list []any, indent string) {
	for _, item := range list {
		w.text.WriteString(indent + "- ")
		if m, ok := item.(map[string]any); ok && len(m) > 0 && w.chance(80) {
			w.mapping(m, indent+"  ")
		} else {
			w.text.WriteString(w.flow(item) + "\n")
		}
	}
}

// flow writes a value in one line: as JSON, which is YAML, or with fewer quotes.
func (w *yamlWriter) flow(v any) string {
	var parts []string
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+": "+w.flow(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case string:
		if strings.ContainsAny(v, "[]{},") {
			return w.quoted(v)
		}
	}
	list, ok := items(v)
	if !ok {
		return w.scalar(v)
	}
	for _, item := range list {
		parts = append(parts, w.flow(item))
	}
	return w.one("[", "[ ") + strings.Join(parts, w.one(", ", ",\n   ")) + "]"
}

func items(v any) (list []any, ok bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []string:
		for _, text := range v {
			list = append(list, text)
		}
		return list, true
	}
	return nil, false
}

func (w *yamlWriter) quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil || !strings.ContainsAny(text, "\n'") && w.chance(50) {
		return "'" + text + "'"
	}
	return string(data)
}

// scalar writes text without quotes where it can, and where people forget them.
func (w *yamlWriter) scalar(v any) string {
	switch v := v.(type) {
	case bool:
		if v {
			return w.one("true", "yes", "on", "True", "YES")
		}
		return w.one("false", "no", "Off", "FALSE")
	case string:
		switch {
		case strings.Trim(v, "01234567") == "" && v != "" && w.chance(97): // a mode
			return w.one("!!str "+v, w.quoted(v), w.quoted(v), w.quoted(v))
		case v == "" || strings.ContainsAny(v[:1], "[]{},*&!|>%@`\"'") || strings.ContainsAny(v, "\n\\\"") || strings.HasSuffix(v, ":"):
			return w.quoted(v)
		case v == "root" && !w.owned && w.chance(50):
			w.owned = true
			return "&owner root"
		case v == "root" && w.owned && w.chance(50):
			return "*owner"
		}
		return w.one(v, v, w.quoted(v))
	}
	return fmt.Sprint(v)
}
