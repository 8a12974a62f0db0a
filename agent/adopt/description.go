package adopt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/wary"
	"github.com/kollet/kollet/configs/pyyaml"
)

// description is Kolla's config.json or config.yaml, as kolla-ansible's templates write it: with modes in any
// form, and with keys that only some versions know.
type description struct {
	file        string // config.json, or config.yaml, which means the same
	Command     string `json:"command"`
	ConfigFiles []struct {
		Source, Dest, Owner, Perm string
		Optional, Merge           bool
		PreserveProperties        bool `json:"preserve_properties"`
	} `json:"config_files"`
	Directories []struct{ Path, Owner, Perm string }
	Files       []struct{ Path, Owner, Perm string }
	Permissions []struct {
		Path, Owner, Perm string
		Recurse           bool
		Exclude           []string
	}
}

// mostDescription is how large the file may be.
const mostDescription = 1 << 20

// readDescription reads the config.yaml or the config.json in a directory of the host. Kolla
// prefers config.yaml.
func readDescription(dir string) (description, error) {
	d := description{file: "config.yaml"}
	name := filepath.Join(dir, d.file)
	data, err := wary.ReadFile(name, mostDescription)
	if errors.Is(err, fs.ErrNotExist) {
		d.file = "config.json"
		name = filepath.Join(dir, d.file)
		data, err = wary.ReadFile(name, mostDescription)
	} else if err == nil {
		if data, err = pyyaml.ToJSON(data); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("%s: %w", name, explain(err))
	}
	if len(strings.Fields(d.Command)) == 0 {
		return d, fmt.Errorf("%s: it has no command", name)
	}
	return d, nil
}

// explain says what is wrong with a value, and what to do about text without quotes that is something
// else in YAML, such as a mode.
func explain(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	expected := map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Struct: "an object"}
	found := map[string]string{"number": "a number", "bool": "true or false", "string": "a string", "array": "a list", "object": "an object"}
	err = fmt.Errorf("expected %s, found %s", expected[wrong.Type.Kind()], found[strings.Fields(wrong.Value)[0]])
	if wrong.Field != "" {
		err = fmt.Errorf("%s: %w", strings.ToLower(wrong.Field), err)
	}
	if wrong.Type.Kind() == reflect.String && wrong.Value != "array" && wrong.Value != "object" {
		err = fmt.Errorf("%w; put it in quotes", err)
	}
	return err
}

// contract translates the description into the fields of a service.
func (t *translated) contract(d description, dir string) {
	t.service.Command = strings.Fields(d.Command)
	for _, f := range d.ConfigFiles {
		source, inside := strings.CutPrefix(path.Clean(f.Source), gate.Config)
		all := source == "" && strings.HasSuffix(f.Source, "/") // without the slash, the copy has the directory's name
		if !inside || !all && !strings.HasPrefix(source, "/") {
			t.cannotSay(d.file+" copies "+f.Source+", which is not below "+gate.Config, "")
			continue
		}
		c := nodefile.ConfigFile{Source: path.Join(literal(dir), source), Dest: f.Dest, Optional: f.Optional, Merge: f.Merge, PreserveProperties: f.PreserveProperties}
		if strings.HasSuffix(f.Source, "/") {
			c.Source += "/"
		}
		if !f.PreserveProperties {
			c.Owner, c.Perm = f.Owner, fourDigits(f.Perm)
		}
		t.service.Config = append(t.service.Config, c)
	}
	for _, d := range d.Directories {
		t.service.Permissions = append(t.service.Permissions, nodefile.Permission{Path: strings.TrimRight(d.Path, "/") + "/", Owner: d.Owner, Perm: fourDigits(d.Perm)})
	}
	for _, f := range d.Files {
		t.cannotSay(d.file+" creates the empty file "+f.Path, "")
	}
	for _, p := range d.Permissions {
		t.service.Permissions = append(t.service.Permissions, nodefile.Permission{Path: existing(p.Path), Owner: p.Owner, Perm: fourDigits(p.Perm), Recurse: p.Recurse, Exclude: p.Exclude})
	}
}

// existing is a path of Kolla's permissions. With a slash at its end, a node file would create it.
func existing(p string) string {
	if p == "/" {
		return p
	}
	return strings.TrimRight(p, "/")
}

// literal writes a path as a pattern that matches nothing else.
func literal(dir string) string {
	return strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]").Replace(dir)
}

// fourDigits returns a mode as a node file has it. Kolla takes 644, 0644 and 0o644.
func fourDigits(perm string) string {
	digits := strings.TrimPrefix(strings.TrimPrefix(perm, "0o"), "0O")
	if digits != "" && len(digits) < 4 {
		return strings.Repeat("0", 4-len(digits)) + digits
	}
	return digits
}
