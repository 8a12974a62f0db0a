package view

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"gopkg.in/yaml.v3"
)

// Documents may be read on a terminal too.
func TestDocumentsHaveNoControlCharacters(t *testing.T) {
	want := map[string]string{"text": "line\n\ttab \x1b[2J \u009b31m \u202egone \u2028 \x7f \U000e0001 naïve 世界 😀"}
	for name, format := range map[string]struct {
		encode func(any) ([]byte, error)
		decode func([]byte, any) error
	}{"json": {toJSON, json.Unmarshal}, "yaml": {toYAML, yaml.Unmarshal}} {
		data, err := format.encode(want)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range string(data) {
			if !unicode.IsGraphic(r) && r != '\n' {
				t.Errorf("%s: %U in %q", name, r, data)
			}
		}
		if !strings.Contains(string(data), "naïve 世界") {
			t.Errorf("%s: %s", name, data)
		}
		var got map[string]string
		if err := format.decode(data, &got); err != nil || got["text"] != want["text"] {
			t.Errorf("%s: read back %q (%v)", name, got["text"], err)
		}
	}
}
