package configs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/configs"
)

const docs = "../docs/configuration.md"

// The reference of the variables is what their comments in the profile say.
func TestVariablesAreDocumented(t *testing.T) {
	body, err := configs.Profile("compute")
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| variable | default | what it is |\n| --- | --- | --- |\n")
	for i, node := range doc.Content[0].Content {
		if node.Value != "vars" {
			continue
		}
		pairs := doc.Content[0].Content[i+1].Content
		for j := 0; j < len(pairs); j += 2 {
			name, value := pairs[j], pairs[j+1]
			text := strings.TrimSpace(strings.TrimPrefix(name.HeadComment, "#"))
			if text == "" || strings.Contains(text, "\n") || !strings.HasSuffix(text, ".") {
				t.Errorf("%s needs one line of comment that ends with a full stop; it has %q", name.Value, text)
			}
			shown := "`" + value.Value + "`"
			if value.Tag == "!!null" {
				shown = "**required**"
			} else if value.Value == "" {
				shown = "empty"
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", name.Value, shown, text)
		}
	}
	documented(t, "variables", table.String())
}

func TestHelpersAreDocumented(t *testing.T) {
	documented(t, "helpers", "`"+strings.Join(configs.Helpers(), "`, `")+"`.\n")
}

// documented checks a generated part of the documentation, or writes it.
func documented(t *testing.T, part, want string) {
	t.Helper()
	page, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	head := "<!-- " + part + ": written by go test ./configs -update -->\n"
	foot := "<!-- end of " + part + " -->\n"
	before, rest, ok := strings.Cut(string(page), head)
	got, after, end := strings.Cut(rest, foot)
	if !ok || !end {
		t.Fatalf("%s has no place for %s", docs, part)
	}
	if got == want {
		return
	}
	if !*update {
		t.Errorf("%s: the part about %s is stale; run go test ./configs -update", docs, part)
		return
	}
	if err := os.WriteFile(docs, []byte(before+head+want+foot+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
