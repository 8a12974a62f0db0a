package target

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/wary"
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

// readSecrets reads every secret's value; what cannot be read is a problem.
func readSecrets(n *node.Node, file *nodefile.Node, writable wary.Dirs, problems *report.Problems) map[string]string {
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(file.Secrets)) {
		value, key, err := readSecret(n, file.Secrets[name], writable)
		if err != nil {
			key = "secrets." + name + key
			problems.Addf(file.Place(key), key, "%w", err)
			value = cmp.Or(value, "?") // so that templates do not report it a second time
		}
		values[name] = value
	}
	return values
}

// readSecret reads a secret's value. If it cannot, it returns the key below the secret that is
// to blame.
func readSecret(n *node.Node, s nodefile.Secret, writable wary.Dirs) (value, key string, err error) {
	if s.Env != "" {
		if value = os.Getenv(s.Env); value == "" {
			err = fmt.Errorf("the environment variable %s is not set, or empty", s.Env)
		}
		return value, "", err
	}
	key, path, remedy := ".file", n.Path(s.File), "write the secret to this file"
	if s.Credential != "" {
		key, remedy = ".credential", fmt.Sprintf("pass it with LoadCredential=%s:PATH in the unit, or with `systemd-run --pipe --wait --property=LoadCredential=%[1]s:PATH kollet …`", s.Credential)
		dir := os.Getenv(credentialsVar)
		if dir == "" {
			return "", key, fmt.Errorf("systemd passed no credentials to kollet; %s", remedy)
		}
		path = filepath.Join(dir, s.Credential)
	}
	data, err := writable.ReadFile(path, mostRead)
	if err != nil {
		if s.File != "" {
			remedy += ", readable by root only"
		}
		return "", key, fmt.Errorf("cannot be read: %w", remedied(err, remedy))
	}
	if value = strings.TrimSuffix(string(data), "\n"); value == "" { // such as what a failed command left
		return "", key, fmt.Errorf("%s is empty; %s", cmp.Or(s.File, s.Credential), remedy)
	}
	return value, key, nil
}

// credentialsVar names the directory with the credentials that systemd passes, systemd.exec(5).
const credentialsVar = "CREDENTIALS_DIRECTORY"

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
