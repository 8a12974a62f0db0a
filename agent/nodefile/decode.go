package nodefile

import (
	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/configs/report"
)

// Decode reads another of kollet's documents and reports its problems as Parse
// does: it checks every key and value against the type that into points to, and
// fills into unless there are problems. The function that it returns gives the
// place of a key, for problems found later.
func Decode(name string, data []byte, into any, problems *report.Problems) (place func(key string) report.Place) {
	d := &document{name: name}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err == nil && (doc.Kind == 0 || null(doc.Content[0])) {
		problems.Addf(d.at(&doc), "", "the file is empty")
		return d.place
	}
	read := parse(name, data, into, problems)
	if read == nil {
		return d.place
	}
	if err := read.root.Decode(into); err != nil {
		problems.Add(syntax(name, err))
	}
	return read.place
}

// Syntax converts an error of yaml.v3 to a Problem.
func Syntax(name string, err error) error { return syntax(name, err) }
