// Package kolla has the types of config.json, with which a container of Kolla's
// contract is told what to run and which files to put in place before. They
// hold what set_configs.py of Kolla 2024.1 to 2026.1 accepts, and of that only
// what its --check also compares without false alarms: modes are four digits,
// and each file has an owner and a mode.
//
// See https://docs.openstack.org/kolla/latest/admin/kolla_api.html.
package kolla

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Config is the content of config.json.
type Config struct {
	Command     string       `json:"command"` // split at white space, with no quoting; see Command
	ConfigFiles []ConfigFile `json:"config_files,omitempty"`
	Directories []Directory  `json:"directories,omitempty"` // made before files are copied; Kolla since 2026.1, older ones ignore it
	Permissions []Permission `json:"permissions,omitempty"` // set after files were copied
}

// ConfigFile is a file or directory to copy. Kolla refuses keys that are not
// listed here.
type ConfigFile struct {
	Source             string `json:"source"` // may be a pattern
	Dest               string `json:"dest"`   // with a final slash: the directory to copy into
	Owner              string `json:"owner"`  // user or user:group, by name
	Perm               string `json:"perm"`   // four octal digits
	Optional           bool   `json:"optional,omitempty"`
	PreserveProperties bool   `json:"preserve_properties,omitempty"`
	Merge              bool   `json:"merge,omitempty"` // into a directory that exists
}

// Directory is a directory to make.
type Directory struct {
	Path  string `json:"path"`
	Owner string `json:"owner"`
	Perm  string `json:"perm"`
}

// Permission is the owner and mode that paths shall have.
type Permission struct {
	Path    string   `json:"path"` // may be a pattern
	Owner   string   `json:"owner"`
	Perm    string   `json:"perm"`
	Recurse bool     `json:"recurse,omitempty"`
	Exclude []string `json:"exclude,omitempty"` // Python regular expressions; with recurse only
}

// Marshal writes c as JSON, or says everything that is wrong with it.
func Marshal(c Config) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("write config.json: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("write config.json: %w", err)
	}
	return out.Bytes(), nil
}

// Command joins a program and its arguments to what config.json's command
// holds. Kolla's start script lets a shell split it at white space and expand
// patterns, and knows no quoting: an argument that would not survive is an error.
func Command(argv []string) (string, error) {
	if len(argv) == 0 {
		return "", fmt.Errorf("there is no command; expected a program and its arguments")
	}
	for i, arg := range argv {
		if arg == "" || strings.ContainsAny(arg, " \t\n\v\f\r*?[") {
			return "", fmt.Errorf("argument %d of the command, %q, is empty or holds white space or one of * ? [, which Kolla's start script would split or expand; put it into a script of the image", i, arg)
		}
	}
	return strings.Join(argv, " "), nil
}
