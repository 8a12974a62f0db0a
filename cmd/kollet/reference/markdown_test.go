package reference

import (
	"fmt"
	"strings"

	"github.com/kollet/kollet/configs"
)

// markdown returns the reference as a page of the manual.
func markdown() string {
	var b strings.Builder
	b.WriteString("# Node file\n\n" + introduction + `
Editors check it while you type with the JSON Schema in
[node-file.schema.json](node-file.schema.json). This page is generated; what
` + "`kollet help node-file`" + ` prints is the same.

## Keys

` + "```yaml\n" + annotated() + "```\n")
	for _, profile := range configs.Profiles() {
		fmt.Fprintf(&b, "\n## Variables of the profile %s\n\n| variable | default | meaning |\n| --- | --- | --- |\n", profile)
		for _, v := range variables(profile) {
			value := "has to be set"
			if v.value != "" {
				value = "`" + v.value + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.name, value, cell(v.doc))
		}
	}
	return b.String()
}

func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s)
}
