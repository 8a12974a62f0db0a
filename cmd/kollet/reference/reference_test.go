package reference

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
)

func TestEveryKeyHasAMeaning(t *testing.T) {
	var walk func(path string, v value)
	walk = func(path string, v value) {
		if v.item != nil {
			walk(path+"[]", *v.item)
		}
		for _, f := range v.fields {
			at := strings.TrimPrefix(path+"."+f.key, ".")
			if f.doc == "" {
				t.Errorf("%s has no doc tag", at)
			}
			walk(at, f.of)
		}
	}
	walk("", node())
}

// The reference is a node file itself once its placeholders are filled in: so it
// names no key that the node file does not have, and its nesting is right.
func TestAnnotatedYAMLIsANodeFile(t *testing.T) {
	filled := strings.NewReplacer(
		", …]", "]", "TEXT", "docker", "BOOL", "true", "NUMBER", "3", "DURATION", "2s", "VALUE", "1", "NAME:", "docker:",
	).Replace(annotated())
	_, err := nodefile.Parse("reference", []byte(filled), configs.Profile, nodefile.Change{})
	if err == nil {
		t.Fatal("a node file that sets every key of every choice at once was accepted")
	}
	for line := range strings.Lines(err.Error()) {
		for _, structural := range []string{"unknown key", "not valid YAML", "expected a mapping", "expected a list", "expected a single value", "whole number", "expected a duration", "stands twice", "true or false"} {
			if strings.Contains(line, structural) {
				t.Errorf("the reference does not have the node file's shape: %s", line)
			}
		}
	}
}

func TestVariables(t *testing.T) {
	for _, profile := range configs.Profiles() {
		vars := variables(profile)
		if len(vars) == 0 {
			t.Errorf("profile %s has no variables", profile)
		}
		for _, v := range vars {
			if v.doc == "" {
				t.Errorf("profile %s: variable %s has no comment above it", profile, v.name)
			}
		}
	}
}

// The meaning of a variable with a fixed set of values names each of them.
func TestAllowedValuesAreDescribed(t *testing.T) {
	for _, name := range configs.Profiles() {
		data, err := configs.Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			OneOf  map[string][]string `yaml:"one_of"`
			SomeOf map[string][]string `yaml:"some_of"`
		}
		if err := yaml.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
		meanings := map[string]string{}
		for _, v := range variables(name) {
			meanings[v.name] = v.doc
		}
		for _, restricted := range []map[string][]string{p.OneOf, p.SomeOf} {
			for variable, allowed := range restricted {
				for _, value := range allowed {
					if value == "" {
						value = "Empty: "
					}
					if !strings.Contains(meanings[variable], value) {
						t.Errorf("profile %s: the comment above %s does not describe %q", name, variable, value)
					}
				}
			}
		}
	}
}

// What the built-in profile writes, the schema accepts.
func TestSchemaAcceptsTheProfile(t *testing.T) {
	data, err := configs.Profile("compute")
	if err != nil {
		t.Fatal(err)
	}
	var profile map[string]any
	if err := yaml.Unmarshal(data, &profile); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"networks", "switches", "one_of", "some_of"} {
		delete(profile, key) // of profiles alone
	}
	for _, problem := range check(t, profile) {
		t.Error(problem)
	}
}

func TestSchemaRefuses(t *testing.T) {
	for _, body := range []string{
		"imagse: {tag: x}",
		"keep_generations: three",
		"services: {a: {volumes: [{from: /a}]}}",
		"services: {a: {stop_grace_period: 60}}",
		"services: {a: {privileged: 1}}",
		"services: {a: {cap_add: NET_ADMIN}}",
	} {
		var doc map[string]any
		if err := yaml.Unmarshal([]byte(body), &doc); err != nil {
			t.Fatal(err)
		}
		if len(check(t, doc)) == 0 {
			t.Errorf("%s: accepted", body)
		}
	}
}

// check validates a document by those words of JSON Schema that jsonSchema uses.
func check(t *testing.T, doc any) []string {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal(jsonSchema(), &s); err != nil {
		t.Fatal(err)
	}
	return conform("", doc, s)
}

func conform(path string, doc any, s map[string]any) []string {
	if alternatives, ok := s["anyOf"].([]any); ok {
		var problems []string
		for _, alternative := range alternatives {
			found := conform(path, doc, alternative.(map[string]any))
			if len(found) == 0 {
				return nil
			}
			problems = append(problems, found...)
		}
		return problems
	}
	want, typed := s["type"]
	isNumber := typeOf(doc) == "integer" && strings.Contains(fmt.Sprint(want), "number")
	if typed && !isNumber && !strings.Contains(fmt.Sprint(want), typeOf(doc)) {
		return []string{fmt.Sprintf("%s: %v is no %v", path, doc, want)}
	}
	var problems []string
	switch doc := doc.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for key, value := range doc {
			inner, ok := properties[key].(map[string]any)
			if !ok {
				inner, ok = s["additionalProperties"].(map[string]any)
			}
			if !ok {
				problems = append(problems, path+": unknown key "+key)
				continue
			}
			problems = append(problems, conform(path+"."+key, value, inner)...)
		}
	case []any:
		items, _ := s["items"].(map[string]any)
		for i, item := range doc {
			problems = append(problems, conform(fmt.Sprintf("%s[%d]", path, i), item, items)...)
		}
	}
	return problems
}

func typeOf(doc any) string {
	switch doc.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int:
		return "integer"
	case float64:
		return "number"
	}
	return "null"
}
