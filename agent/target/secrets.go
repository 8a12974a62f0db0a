package target

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/configs/report"
)

// RedactorOf returns a redactor for the secrets that can be read. The node file may
// be invalid, or incomplete without the command line's flags.
func RedactorOf(n *node.Node) *redact.Redactor {
	file, _ := n.ReadFile(nodefile.Change{})
	if file == nil {
		return nil
	}
	return redact.New(readSecrets(n, file, writableDirs(n, file), &report.Problems{}))
}

// Redact replaces secrets in an error, such as those in a service's log. t may be
// nil.
func (t *Target) Redact(err error) error {
	if t == nil {
		return err
	}
	return t.Redactor.Error(err)
}

// refuseSecrets reports secrets in a container's settings, which the engine and the
// process list show. Only config files may contain secrets.
func (b *builder) refuseSecrets(s generation.Service) {
	found, err := secretsIn(s, b.renderer.Redactor())
	if err != nil {
		b.problems.Add(err)
		return
	}
	key := "services." + b.name
	for _, name := range slices.Sorted(maps.Keys(found)) {
		b.problems.Addf(b.file.Place(key), key, "the value of secret %s is in its %s; use secrets in config files only; "+
			"if the value is a common word that is there by chance, choose another password", name, strings.Join(found[name], ", "))
	}
}

// secretsIn returns the fields of a service's record that contain a secret, by the
// secret's name.
func secretsIn(s generation.Service, redactor *redact.Redactor) (map[string][]string, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var fields, spec map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(fields["spec"], &spec); err != nil {
		return nil, err
	}
	delete(fields, "spec")
	found := map[string][]string{}
	for _, all := range []map[string]json.RawMessage{fields, spec} {
		for field, value := range all {
			for _, name := range redactor.In(string(value)) {
				found[name] = append(found[name], field)
			}
		}
	}
	for _, fields := range found {
		slices.Sort(fields)
	}
	return found, nil
}
