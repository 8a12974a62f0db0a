package view

import (
	"fmt"
	"strings"

	"github.com/kollet/kollet/agent/target"
)

// Files shows the paths of written files.
type Files []string

func (f Files) text(t *text) {
	for _, path := range f {
		t.line("%s", onOneLine(path))
	}
}

// Explanations shows where the content of config files comes from.
type Explanations []target.Explained

func (e Explanations) text(t *text) {
	for i, file := range e {
		if i > 0 {
			t.line("")
		}
		t.painted(bold, "%s: %s", file.Service, file.Path)
		if len(file.Settings) == 0 {
			t.line("    %s", place(file.File, file.Line))
		}
		section := ""
		for _, s := range file.Settings {
			if s.Section != section {
				section = s.Section
				t.line("")
				t.line("[%s]", section)
			}
			for _, value := range s.Values {
				t.line("%s = %s", s.Key, continued(value))
			}
			t.line("    %s", place(s.File, s.Line))
			for _, r := range s.Replaced {
				t.line("    instead of %s, %s", onOneLine(strings.Join(r.Values, ", ")), place(r.File, r.Line))
			}
		}
	}
}

// continued indents the further lines of a value, as INI files do. Otherwise they could pass
// for sections, settings or places.
func continued(value string) string { return strings.ReplaceAll(value, "\n", "\n        ") }

func place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}
