package reference

import "encoding/json"

// jsonSchema returns the node file's JSON Schema (draft 2020-12), for editors.
// kollet's own check knows more: which values a key takes, and which keys go
// together.
func jsonSchema() []byte {
	s := schema(node())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "kollet node file"
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // plain data
	}
	return append(data, '\n')
}

// durations is the syntax of time.ParseDuration, without a sign.
const durations = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`

func schema(v value) map[string]any {
	switch v.kind {
	case text:
		// YAML reads 26.2 as a number and true as a boolean; as text they are fine.
		return map[string]any{"type": []string{"string", "number", "boolean"}}
	case boolean:
		return map[string]any{"type": "boolean"}
	case number:
		return map[string]any{"type": "integer"}
	case duration:
		return map[string]any{"type": "string", "pattern": durations}
	case list:
		return map[string]any{"type": "array", "items": schema(*v.item)}
	case names:
		return map[string]any{"type": "object", "additionalProperties": schema(*v.item)}
	case mapping:
		return object(v)
	case anything:
	}
	return map[string]any{}
}

func object(v value) map[string]any {
	properties := map[string]any{}
	for _, f := range v.fields {
		p := schema(f.of)
		if f.doc != "" {
			p["description"] = f.doc
		}
		properties[f.key] = p
	}
	o := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if v.short == "" {
		return o
	}
	return map[string]any{"anyOf": []any{o, map[string]any{"type": "string", "description": v.short}}}
}
