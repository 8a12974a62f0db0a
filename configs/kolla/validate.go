package kolla

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	perm  = regexp.MustCompile(`^[0-7]{4}$`)
	owner = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]*(:[a-zA-Z_][a-zA-Z0-9_.-]*)?$`)
)

// Validate returns everything that is wrong with c, each with its key, joined by
// errors.Join.
func (c Config) Validate() error {
	var v validator
	if strings.TrimSpace(c.Command) == "" {
		v.bad("command", "is empty; expected the program to run and its arguments")
	} else if strings.ContainsRune(c.Command, 0) {
		v.bad("command", "contains a zero byte, which no argument can have")
	}
	for i, f := range c.ConfigFiles {
		key := fmt.Sprintf("config_files[%d]", i)
		v.path(key+".source", f.Source)
		v.path(key+".dest", f.Dest)
		if !f.PreserveProperties || f.Owner+f.Perm != "" {
			v.access(key, f.Owner, f.Perm)
		}
	}
	for i, d := range c.Directories {
		key := fmt.Sprintf("directories[%d]", i)
		v.path(key+".path", d.Path)
		if strings.ContainsAny(d.Path, "*?[") {
			v.bad(key+".path", "is %q; a directory to create cannot be a pattern", d.Path)
		}
		v.access(key, d.Owner, d.Perm)
	}
	for i, p := range c.Permissions {
		key := fmt.Sprintf("permissions[%d]", i)
		v.path(key+".path", p.Path)
		v.owner(key, p.Owner)
		if p.Perm != "" {
			v.perm(key, p.Perm)
		}
		if len(p.Exclude) > 0 && !p.Recurse {
			v.bad(key+".exclude", "does nothing without recurse; set recurse or drop it")
		}
	}
	return errors.Join(v.errs...)
}

type validator struct{ errs []error }

func (v *validator) bad(key, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("%s %s", key, fmt.Sprintf(format, args...)))
}

func (v *validator) path(key, value string) {
	if !path.IsAbs(value) || strings.ContainsRune(value, 0) {
		v.bad(key, "is %q; expected an absolute path in the container", value)
	}
}

func (v *validator) access(key, who, mode string) {
	v.owner(key, who)
	v.perm(key, mode)
}

func (v *validator) owner(key, who string) {
	if !IsOwner(who) {
		v.bad(key+".owner", "is %q; expected a user or user:group of the image, by name", who)
	}
}

func (v *validator) perm(key, mode string) {
	if !IsPerm(mode) {
		v.bad(key+".perm", "is %q; expected four octal digits, such as 0600", mode)
	}
}

// IsOwner reports whether a text is a user or user:group, by name.
func IsOwner(text string) bool { return owner.MatchString(text) }

// IsPerm reports whether a text is a mode of four octal digits.
func IsPerm(text string) bool { return perm.MatchString(text) }
