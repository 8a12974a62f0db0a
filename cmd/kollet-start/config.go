package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"
)

// config is a config.json as Kolla's contract defines it, with these differences:
// an unknown key or a value of the wrong type is always an error, while Kolla
// ignores some; paths are absolute; and permissions cannot exclude paths, because
// that would require Python's regular expressions.
type config struct {
	command     string
	directories []rule
	files       []rule // created empty if absent
	copies      []rule // config_files
	permissions []rule
}

// rule is one entry of a section. Which fields are used depends on it.
type rule struct {
	where    string // place in config.json, for errors: config_files[0]
	path     string // of permissions: a pattern
	source   string // a pattern
	dest     string // into the directory if it ends in a slash
	owner    string // user or user:group; empty: leave it
	perm     mode
	optional bool // a missing source is not an error
	preserve bool // keep the source's times, owner and mode
	merge    bool // keep other files in a directory
	recurse  bool
}

// mode is a file mode, as chmod(2) takes it, or absent.
type mode struct {
	bits  uint32
	given bool
}

// parseConfig checks all of data before any of it is applied.
func parseConfig(data []byte) (config, error) {
	v, err := fastjson.ParseBytes(data)
	if err != nil {
		return config{}, err
	}
	top, err := v.Object()
	if err != nil {
		return config{}, errors.New("expected an object")
	}
	var c config
	hasCommand := false
	err = each(top, func(key string, v *fastjson.Value) (err error) {
		switch key {
		case "command":
			hasCommand = true
			if c.command, err = text(v); err != nil {
				err = fmt.Errorf("command: %w", err)
			}
		case "directories":
			c.directories, err = section(v, key, rule.checkOwned)
		case "files":
			c.files, err = section(v, key, rule.checkOwned)
		case "config_files":
			c.copies, err = section(v, key, rule.checkCopy)
		case "permissions":
			c.permissions, err = section(v, key, rule.checkPermission)
		default:
			err = fmt.Errorf("%s: %w", key, errUnknown)
		}
		return err
	})
	if err == nil && !hasCommand {
		err = errors.New("command is missing")
	}
	return c, err
}

var errUnknown = errors.New("kollet-start does not know this key")

func section(v *fastjson.Value, name string, check func(rule) error) ([]rule, error) {
	items, err := v.Array()
	if err != nil {
		return nil, fmt.Errorf("%s: expected a list", name)
	}
	rules := make([]rule, 0, len(items))
	for i, item := range items {
		r := rule{where: name + "[" + strconv.Itoa(i) + "]"}
		o, err := item.Object()
		if err != nil {
			return nil, fmt.Errorf("%s: expected an object", r.where)
		}
		err = each(o, func(key string, v *fastjson.Value) error {
			if err := r.set(name, key, v); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			return nil
		})
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

// set sets one key of an entry, if its section has that key.
func (r *rule) set(section, key string, v *fastjson.Value) (err error) {
	switch section + "." + key {
	case "config_files.source":
		r.source, err = text(v)
	case "config_files.dest":
		r.dest, err = text(v)
	case "config_files.optional":
		r.optional, err = v.Bool()
	case "config_files.preserve_properties":
		r.preserve, err = v.Bool()
	case "config_files.merge":
		r.merge, err = v.Bool()
	case "permissions.recurse":
		r.recurse, err = v.Bool()
	case "permissions.path", "directories.path", "files.path":
		r.path, err = text(v)
	case "permissions.exclude":
		if a, _ := v.Array(); v.Type() != fastjson.TypeArray || len(a) > 0 {
			err = errors.New("kollet-start does not support this; list the paths to change instead")
		}
	default:
		switch key {
		case "owner":
			r.owner, err = text(v)
		case "perm":
			if v.Type() != fastjson.TypeNull {
				r.perm, err = permission(v)
			}
		default:
			err = errUnknown
		}
	}
	return err
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
func permission(v *fastjson.Value) (mode, error) {
	s, err := text(v)
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

func text(v *fastjson.Value) (string, error) {
	b, err := v.StringBytes()
	if err != nil {
		return "", errors.New("expected a string")
	}
	return string(b), nil
}

// each calls f for every key of o until one fails.
func each(o *fastjson.Object, f func(key string, v *fastjson.Value) error) error {
	var failed error
	o.Visit(func(key []byte, v *fastjson.Value) {
		if failed == nil {
			failed = f(string(key), v)
		}
	})
	return failed
}
