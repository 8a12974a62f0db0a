package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/configs/report"
)

// Secrets appear in rendered files and nowhere else. What is here keeps them
// out of everything that kollet says, and of containers' settings.

// shortSecret is the length below which a value is not looked for in other
// texts: too much would be taken for it.
const shortSecret = 4

// secretsForRedaction reads what secrets it can, to keep them out of messages,
// also from a node file that is wrong or lacks what the command line gives.
func (a *Agent) secretsForRedaction() map[string]string {
	file, _ := a.readNode(Options{})
	if file == nil {
		return nil
	}
	return a.readSecrets(file, &report.Problems{})
}

// keepSecretsOut refuses a secret's value in anything but a rendered file: the
// engine shows all of it to whoever asks, and so does the process list.
func (b *builder) keepSecretsOut(s generation.Service) {
	data, err := json.Marshal(s)
	if err != nil {
		b.problems.Add(err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(b.secrets)) {
		value := b.secrets[name]
		quoted, _ := json.Marshal(value) // a string
		quoted = quoted[1 : len(quoted)-1]
		fields := fieldsWith(data, quoted)
		if len(value) >= shortSecret && len(fields) > 0 {
			key := "services." + b.name
			b.problems.Addf(b.file.Place(key), key, "the value of secret %s stands in its %s; secrets may be used in config files alone; "+
				"if it stands there by chance, as a common word does, choose another password", name, strings.Join(fields, ", "))
		}
	}
}

// fieldsWith names the fields of a service's record in which a text stands.
func fieldsWith(record, text []byte) []string {
	var fields, spec map[string]json.RawMessage
	if json.Unmarshal(record, &fields) != nil || json.Unmarshal(fields["spec"], &spec) != nil {
		return nil // it was made here
	}
	delete(fields, "spec")
	var found []string
	for _, all := range []map[string]json.RawMessage{fields, spec} {
		for field, value := range all {
			if bytes.Contains(value, text) {
				found = append(found, field)
			}
		}
	}
	slices.Sort(found)
	return found
}

// redact keeps secrets out of an error, whoever put them there.
func (t *target) redact(err error) error {
	if t == nil || err == nil {
		return err
	}
	text := redactText(t.secrets, err.Error())
	if text == err.Error() {
		return err
	}
	return redacted{text, err}
}

// redacted is an error that says less, but is of the same kind: exit statuses
// hang on it.
type redacted struct {
	text string
	err  error
}

func (r redacted) Error() string { return r.text }
func (r redacted) Unwrap() error { return r.err }

// redactText replaces secrets by their names, as they are and as %q and JSON
// show them; the longest first, since one may be a part of another.
func redactText(secrets map[string]string, text string) string {
	names := slices.SortedFunc(maps.Keys(secrets), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(secrets[b]), len(secrets[a])), cmp.Compare(a, b))
	})
	var pairs []string
	for _, name := range names {
		if value := secrets[name]; len(value) >= shortSecret {
			quoted := strconv.Quote(value)
			pairs = append(pairs, value, "<secret "+name+">", quoted[1:len(quoted)-1], "<secret "+name+">")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
