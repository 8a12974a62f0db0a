// Package kolla defines the types of config.json, which tells a container with
// Kolla's contract what to run and which files to copy first. They allow what
// set_configs.py of Kolla 2024.1 to 2026.1 accepts and its --check compares
// without false alarms: modes have four digits, and each file has an owner and a
// mode.
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
	Command     string       `json:"command"` // split at white space, without quoting; see Command
	ConfigFiles []ConfigFile `json:"config_files,omitempty"`
	Directories []Directory  `json:"directories,omitempty"` // created before files are copied; ignored by Kolla before 2026.1
	Permissions []Permission `json:"permissions,omitempty"` // set after files were copied
}

// ConfigFile is a file or directory to copy. Kolla rejects other keys.
type ConfigFile struct {
	Source             string `json:"source"`          // may be a pattern
	Dest               string `json:"dest"`            // a final slash makes it the directory to copy into
	Owner              string `json:"owner,omitempty"` // user or user:group, by name; empty with PreserveProperties
	Perm               string `json:"perm,omitempty"`  // four octal digits; empty with PreserveProperties
	Optional           bool   `json:"optional,omitempty"`
	PreserveProperties bool   `json:"preserve_properties,omitempty"`
	Merge              bool   `json:"merge,omitempty"` // into a directory that exists
}

// Directory is a directory to create.
type Directory struct {
	Path  string `json:"path"`
	Owner string `json:"owner"`
	Perm  string `json:"perm"`
}

// Permission is the owner and mode of paths.
type Permission struct {
	Path    string   `json:"path"` // may be a pattern
	Owner   string   `json:"owner"`
	Perm    string   `json:"perm,omitempty"` // empty: modes stay as they are
	Recurse bool     `json:"recurse,omitempty"`
	Exclude []string `json:"exclude,omitempty"` // Python regular expressions; only with Recurse
}

// Marshal returns c as JSON, or everything that is wrong with it.
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

// Command returns a program and its arguments as the command of config.json.
// Kolla's start script has a shell split it at white space and expand patterns,
// without quoting. An argument that would change is an error.
func Command(argv []string) (string, error) {
	if len(argv) == 0 {
		return "", fmt.Errorf("the command is empty; expected a program and its arguments")
	}
	for i, arg := range argv {
		if arg == "" || strings.ContainsAny(arg, " \t\n\v\f\r*?[") {
			return "", fmt.Errorf("argument %d of the command, %q, is empty or contains white space or one of * ? [, which Kolla's start script would split or expand; use a script in the image instead", i, arg)
		}
	}
	return strings.Join(argv, " "), nil
}
