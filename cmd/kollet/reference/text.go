package reference

import (
	"cmp"
	"strings"

	"github.com/kollet/kollet/configs"
)

const introduction = `The node file, /etc/kollet/node.yaml, describes what this node should run. It is
YAML, and unknown keys are errors. All keys are optional: the default is the
profile's value, or the one in the description. You choose each NAME.
`

// Text is the reference as annotated YAML.
func Text() string {
	var b strings.Builder
	b.WriteString(introduction + "\n" + annotated())
	for _, profile := range configs.Profiles() {
		b.WriteString("\nThe profile " + profile + " has these vars, with their defaults:\n\n")
		for _, v := range variables(profile) {
			b.WriteString("# " + v.doc + "\n" + v.name + ": " + cmp.Or(v.value, "(required)") + "\n")
		}
	}
	return b.String()
}

func annotated() string {
	var b strings.Builder
	annotate(&b, node().fields, "", "")
	return b.String()
}

// annotate writes the keys of a mapping, each below its description. first is the
// indentation of the first line, which may contain a list's dash.
func annotate(b *strings.Builder, fields []field, first, indent string) {
	for _, f := range fields {
		if f.doc != "" {
			b.WriteString(first + "# " + f.doc + "\n")
			first = indent
		}
		b.WriteString(first + f.key + ":")
		first = indent
		annotateValue(b, f.of, indent)
	}
}

var placeholders = map[kind]string{text: "TEXT", boolean: "BOOL", number: "NUMBER", duration: "DURATION", anything: "VALUE"}

// annotateValue writes the value of a key.
func annotateValue(b *strings.Builder, v value, indent string) {
	deeper := indent + "  "
	switch v.kind {
	case mapping:
		b.WriteString("\n")
		annotate(b, v.fields, deeper, deeper)
	case names:
		b.WriteString("\n" + deeper + "NAME:")
		annotateValue(b, *v.item, deeper)
	case list:
		if v.item.kind != mapping {
			b.WriteString(" [" + placeholders[v.item.kind] + ", …]\n")
			return
		}
		b.WriteString("\n")
		if v.item.short != "" {
			b.WriteString(deeper + "# in short: " + v.item.short + "\n")
		}
		annotate(b, v.item.fields, deeper+"- ", deeper+"  ")
	default:
		b.WriteString(" " + placeholders[v.kind] + "\n")
	}
}
