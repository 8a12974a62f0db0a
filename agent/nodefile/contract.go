package nodefile

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/configs/kolla"
)

// validateContract checks what config.json tells the container, except for config files.
func validateContract(s Service, bad func(string, string, ...any)) {
	for _, c := range []struct {
		key  string
		argv []string
	}{{"entrypoint", s.Entrypoint}, {"command", s.Command}, {"warmup", s.Warmup}} {
		for i, arg := range c.argv {
			if strings.ContainsRune(arg, 0) {
				bad(fmt.Sprintf("%s[%d]", c.key, i), "contains a zero byte, which no argument can have")
			}
		}
		first := c.argv[:min(1, len(c.argv))]
		if c.key == "command" { // may be the arguments of an entrypoint, which can be empty
			first = c.argv
		}
		if len(first) > 0 && strings.TrimSpace(strings.Join(first, "")) == "" {
			bad(c.key+"[0]", "expected a program, got %q", first[0])
		}
	}
	if dir := Reserved(s.WorkingDir); dir != "" { // an engine creates it if it is missing
		bad("working_dir", reservedText, dir, s.WorkingDir)
	}
	for i, p := range s.Permissions {
		key := fmt.Sprintf("permissions[%d]", i)
		if !path.IsAbs(p.Path) || strings.ContainsRune(p.Path, 0) {
			bad(key+".path", "expected an absolute path in the container, got %q", p.Path)
		}
		if path.IsAbs(p.Path) && p.changesGate() {
			bad(key+".path", reservedText, gate.Home, p.Path)
		}
		if strings.HasSuffix(p.Path, "/") && strings.ContainsAny(p.Path, "*?[") {
			bad(key+".path", "a directory that is created cannot be a pattern, got %q; remove the final slash", p.Path)
		}
		badField := func(field, format string, args ...any) { bad(key+"."+field, format, args...) }
		if p.Perm != "" || strings.HasSuffix(p.Path, "/") {
			validateAccess(p.Owner, p.Perm, badField)
		} else {
			validateOwner(p.Owner, badField)
		}
		if len(p.Exclude) > 0 && !p.Recurse {
			badField("exclude", "it does nothing without recurse; set recurse: true, or remove it")
		}
		for j, expr := range p.Exclude {
			if _, err := regexp.Compile(expr); err != nil { // as kollet-start does
				badField(fmt.Sprintf("exclude[%d]", j), "%v", err)
			}
		}
	}
}

// validateAccess checks an owner and a mode.
func validateAccess(owner, perm string, bad func(string, string, ...any)) {
	validateOwner(owner, bad)
	if !kolla.IsPerm(perm) {
		bad("perm", "expected four octal digits, such as \"0600\", got %q", perm)
	}
}

func validateOwner(owner string, bad func(string, string, ...any)) {
	if !kolla.IsOwner(owner) {
		bad("owner", "expected a user or user:group of the image, by name, got %q", owner)
	}
}
