package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/kollet/kollet/configs/pyyaml"
)

// config is a config.json, or a config.yaml, as Kolla's contract defines it, with these differences:
// an unknown key or a value of the wrong type is always an error, while Kolla
// ignores some, and paths are absolute. docs/kolla.md lists all differences.
type config struct {
	command     string
	directories []rule
	files       []rule // created empty if absent
	copies      []rule // config_files
	permissions []rule
}

// rule is one entry of a section. Which fields are used depends on it.
type rule struct {
	where    string // place in the file, for errors: config_files[0]
	path     string // of permissions: a pattern
	source   string // a pattern
	dest     string // into the directory if it ends in a slash
	owner    string // user or user:group; empty: leave it
	perm     mode
	optional bool // a missing source is not an error
	preserve bool // keep the source's times, owner and mode
	merge    bool // keep other files in a directory
	recurse  bool
	exclude  []*regexp.Regexp // paths below a directory to leave alone: those that all match
}

// excludes reports whether a path below a directory is left alone. Kolla goes through
// the patterns and sets the path for each that does not match.
func (r rule) excludes(path string) bool {
	for _, p := range r.exclude {
		if !p.MatchString(path) {
			return false
		}
	}
	return len(r.exclude) > 0
}

// mode is a file mode, as chmod(2) takes it, or absent.
type mode struct {
	bits  uint32
	given bool
}

// parseYAML is parseConfig for a config.yaml.
func parseYAML(data []byte) (config, error) {
	converted, err := pyyaml.ToJSON(data)
	if err != nil {
		return config{}, err
	}
	return parseConfig(converted)
}

// parseConfig checks all of data before any of it is applied.
func parseConfig(data []byte) (config, error) {
	v, err := parseJSON(data)
	if err != nil {
		return config{}, err
	}
	members, err := v.asObject()
	if err != nil {
		return config{}, err
	}
	var c config
	hasCommand := false
	for _, m := range members {
		switch m.key {
		case "command":
			hasCommand = true
			c.command, err = m.value.asText()
			err = m.wrap(err)
		case "directories":
			c.directories, err = section(m, rule.checkOwned)
		case "files":
			c.files, err = section(m, rule.checkOwned)
		case "config_files":
			c.copies, err = section(m, rule.checkCopy)
		case "permissions":
			c.permissions, err = section(m, rule.checkPermission)
		default:
			if !isComment(m.key) {
				err = m.wrap(errUnknown)
			}
		}
		if err != nil {
			return config{}, err
		}
	}
	if !hasCommand {
		err = errors.New("command is missing")
	}
	return c, err
}

var errUnknown = errors.New("kollet-start does not know this key")

// isComment tells a key that people put beside others as a comment, such as _comment.
// Kolla ignores unknown keys, except in config_files.
func isComment(key string) bool { return strings.HasPrefix(key, "_") }

func section(m member, check func(rule) error) ([]rule, error) {
	items, err := m.value.asList()
	if err != nil {
		return nil, m.wrap(err)
	}
	rules := make([]rule, 0, len(items))
	for i, item := range items {
		r := rule{where: m.key + "[" + strconv.Itoa(i) + "]"}
		keys, err := item.asObject()
		for _, k := range keys {
			if err = k.wrap(r.set(m.key, k.key, k.value)); err != nil {
				break
			}
		}
		if err == nil {
			err = check(r)
		}
		if err != nil {
			return nil, r.wrap(err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func (m member) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", m.key, err)
}

// set sets one key of an entry, if its section has that key.
func (r *rule) set(section, key string, v value) (err error) {
	switch section + "." + key {
	case "config_files.source":
		r.source, err = v.asText()
	case "config_files.dest":
		r.dest, err = v.asText()
	case "config_files.optional":
		r.optional, err = v.asBool()
	case "config_files.preserve_properties":
		r.preserve, err = v.asBool()
	case "config_files.merge":
		r.merge, err = v.asBool()
	case "permissions.recurse":
		r.recurse, err = v.asBool()
	case "permissions.path", "directories.path", "files.path":
		r.path, err = v.asText()
	case "permissions.exclude":
		r.exclude, err = patterns(v)
	default:
		switch key {
		case "owner":
			r.owner, err = v.asText()
		case "perm":
			if v.Type() != fastjson.TypeNull {
				r.perm, err = permission(v)
			}
		default:
			if section == "config_files" || !isComment(key) {
				err = errUnknown
			}
		}
	}
	return err
}

// patterns compiles the expressions of exclude. docs/kolla.md says where Python's
// have other rules.
func patterns(v value) ([]*regexp.Regexp, error) {
	items, err := v.asList()
	if err != nil {
		return nil, err
	}
	var found []*regexp.Regexp
	for i, item := range items {
		expr, err := item.asText()
		var p *regexp.Regexp
		if err == nil {
			if p, err = regexp.Compile(expr); err != nil {
				err = fmt.Errorf("%q: %w", expr, err)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		found = append(found, p)
	}
	return found, nil
}

func (r rule) checkOwned() error {
	if hasMagic(r.path) {
		return fmt.Errorf("path %q: must not be a pattern here", r.path)
	}
	if !r.perm.given {
		return errors.New("perm is missing")
	}
	return r.checkPermission()
}

func (r rule) checkPermission() error {
	if err := absolute("path", r.path); err != nil {
		return err
	}
	if r.owner == "" {
		return errors.New("owner is missing")
	}
	return nil
}

func (r rule) checkCopy() error {
	if err := absolute("source", r.source); err != nil {
		return err
	}
	if err := absolute("dest", r.dest); err != nil {
		return err
	}
	if !r.preserve && (r.owner == "" || !r.perm.given) {
		return errors.New("owner and perm are missing: give both, or preserve_properties")
	}
	return nil
}

func absolute(key, path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%s is missing", key)
	case path[0] != '/':
		return fmt.Errorf("%s %q: expected an absolute path", key, path)
	case strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("%s %q: contains a zero byte", key, path)
	}
	return nil
}

// permission reads three or four octal digits, which may follow 0o.
func permission(v value) (mode, error) {
	s, err := v.asText()
	if err != nil {
		return mode{}, err
	}
	digits := strings.TrimPrefix(s, "0o")
	bits, err := strconv.ParseUint(digits, 8, 12)
	if err != nil || len(digits) < 3 || len(digits) > 4 {
		return mode{}, fmt.Errorf("%q: expected three or four octal digits, such as \"0600\"", s)
	}
	return mode{uint32(bits), true}, nil
}
