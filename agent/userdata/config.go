package userdata

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs/report"
)

// mergeLists makes cloud-init append to lists such as write_files and runcmd. By
// default a part's list replaces an earlier one (doc/rtd/reference/merging.rst).
// Other values that are already set stay.
const mergeLists = "list(append)+dict(no_replace,recurse_list)+str()"

// logAll makes cloud-init log the output of commands.
const logAll = "| tee -a /var/log/cloud-init-output.log"

// Config is a cloud-config. Its fields are cloud-init's modules.
type Config struct {
	MergeHow   string            `yaml:"merge_how,omitempty"`
	Output     map[string]string `yaml:"output,omitempty"`
	Timezone   string            `yaml:"timezone,omitempty"`
	Passwords  *Passwords        `yaml:"chpasswd,omitempty"`
	Resolve    bool              `yaml:"manage_resolv_conf,omitempty"`
	WriteFiles []WriteFile       `yaml:"write_files,omitempty"`
	RunCommand [][]string        `yaml:"runcmd,omitempty,flow"`
}

// Passwords sets users' passwords.
type Passwords struct {
	Expire bool       `yaml:"expire"`
	Users  []Password `yaml:"users"`
}

// Password is a user's password as a hash.
type Password struct {
	Name     string `yaml:"name"`
	Password string `yaml:"password"`
	Type     string `yaml:"type"`
}

// WriteFile is a file that cloud-init writes. With Defer it does so after it has
// created users and installed packages.
type WriteFile struct {
	Path        string `yaml:"path"`
	Owner       string `yaml:"owner"`
	Permissions string `yaml:"permissions"`
	Defer       bool   `yaml:"defer,omitempty"`
	Encoding    string `yaml:"encoding,omitempty"`
	Content     text   `yaml:"content"`
}

// Part returns the cloud-config as a part that is merged with earlier ones.
func (c Config) Part(name string) Part {
	c.MergeHow = mergeLists
	return Part{Type: CloudConfigType, Name: name, Data: append([]byte("#cloud-config\n"), YAML(c)...)}
}

// YAML returns a value as YAML. It panics if the value cannot be encoded, which is
// a bug of the caller.
func YAML(v any) []byte {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(v)
	if err == nil {
		err = e.Close()
	}
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

// text is encoded as a readable YAML string.
type text string

// MarshalYAML implements yaml.Marshaler.
func (t text) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(t), Style: yaml.DoubleQuotedStyle}
	if strings.Contains(string(t), "\n") {
		n.Style = yaml.LiteralStyle
	}
	return n, nil
}

// File is a file to be written on the node.
type File struct {
	Path  string // on the node
	Owner string // user:group
	Perm  fs.FileMode
	Data  []byte
}

// Entry returns the file for cloud-init's write_files: text as it is, other content
// in base64.
func (f File) Entry() WriteFile {
	w := WriteFile{Path: f.Path, Owner: f.Owner, Permissions: fmt.Sprintf("%04o", f.Perm)}
	w.Defer = !strings.HasPrefix(f.Owner, "root:") && f.Owner != "root"
	if isText(f.Data) {
		w.Content = text(f.Data)
	} else {
		w.Encoding, w.Content = "b64", text(base64.StdEncoding.EncodeToString(f.Data))
	}
	return w
}

// isText reports whether every YAML parser reads the same bytes from a literal
// block: there are no Unicode line breaks, and no white space at the start, from
// which the indentation is detected.
func isText(data []byte) bool {
	s := string(data)
	if !utf8.ValidString(s) || s == "" || s[0] == ' ' || s[0] == '\n' || s[0] == '\t' || strings.HasSuffix(s, "\n\n") {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '\n' && r != '\t' && !(unicode.IsPrint(r) && r <= 0xFFFF && r != 0xFEFF)
	})
}

// Perm parses a file mode such as 0600.
func Perm(s string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n > 0o7777 {
		return 0, fmt.Errorf("expected permissions such as 0600, got %q", s)
	}
	return fs.FileMode(n), nil
}

var owner = regexp.MustCompile(`^[a-z_][a-z0-9_.-]*(:[a-z_][a-z0-9_.-]*)?$`)

// Owner parses an owner and adds the group of the same name if it has none.
func Owner(s string) (string, error) {
	if !owner.MatchString(s) {
		return "", fmt.Errorf("expected an owner such as root or nova:nova, got %q", s)
	}
	if !strings.Contains(s, ":") {
		s += ":" + s
	}
	return s, nil
}

// checkCloudConfig parses a cloud-config as cloud-init does, and returns its keys.
func checkCloudConfig(name string, data []byte, problems *report.Problems) (keys map[string]yaml.Node) {
	if TypeOf(data) != CloudConfigType {
		problems.Addf(report.Place{File: name, Line: 1, Column: 1}, "", "a cloud-config begins with the line #cloud-config")
		return nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		problems.Add(nodefile.Syntax(name, err))
		return nil
	}
	if root.Kind == 0 {
		return nil // only comments, which cloud-init accepts
	}
	at := root.Content[0]
	if at.Kind != yaml.MappingNode {
		problems.Addf(report.Place{File: name, Line: at.Line, Column: at.Column}, "", "a cloud-config is a mapping of module names, such as runcmd, to settings")
		return nil
	}
	if err := root.Decode(&keys); err != nil {
		problems.Add(nodefile.Syntax(name, err))
	}
	return keys
}

// mergesItself reports whether a cloud-config says how to merge it.
func mergesItself(data []byte) bool {
	keys := checkCloudConfig("", data, &report.Problems{})
	_, how := keys["merge_how"]
	_, kind := keys["merge_type"]
	return how || kind
}
