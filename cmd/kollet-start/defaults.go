package main

import (
	"fmt"
	"strings"
	"unicode/utf16"

	"golang.org/x/sys/unix"
)

// Where Kolla's scripts look for the files of the image that configuration
// replaces.
const (
	defaults   = "/etc/kolla/defaults"
	setConfigs = "/usr/local/bin/kolla_set_configs" // tells an image of Kolla
)

// saveDefaults does what kolla_set_configs does before it copies: it saves what the
// image has at each destination, and writes a list of these files. Kolla's scripts
// read the list: kolla_copy_cacerts to find certificates, and kolla_set_configs
// --check. Sources with wildcards are not listed. Other images do not need this.
//
// The list is written last and atomically: if it exists, everything is saved.
func (a applier) saveDefaults(c config) error {
	list := a.path(defaults + "/state")
	if !exists(a.path(setConfigs)) || exists(list) {
		return nil
	}
	if err := makeDirs(a.path(defaults)); err != nil {
		return err
	}
	var items []string
	listed := map[string]bool{}
	for _, r := range c.copies {
		dest := r.destOf(r.source)
		if listed[dest] || !a.has(r.source) {
			continue
		}
		listed[dest] = true
		kept := "null"
		if exists(a.path(dest)) {
			if err := a.copy(a.path(dest), a.path(defaults+dest), rule{preserve: true}); err != nil {
				return r.wrap(err)
			}
			kept = quote(defaults + dest)
		}
		items = append(items, "    "+quote(dest)+": {\n"+
			"        \"source\": "+quote(dest)+",\n"+
			"        \"preserve_properties\": true,\n"+
			"        \"dest\": "+kept+"\n    }")
	}
	text := "{}"
	if len(items) > 0 {
		text = "{\n" + strings.Join(items, ",\n") + "\n}"
	}
	return replaceFile(list, []byte(text), readableByAll)
}

// has reports whether a source exists as Kolla looks for it: literally, and as a
// directory if it ends in a slash.
func (a applier) has(source string) bool {
	st, err := stat(a.path(source))
	return err == nil && (isDir(st) || !strings.HasSuffix(source, "/"))
}

func readableByAll(path string) error { return failure("chmod", path, unix.Chmod(path, 0o644)) }

// quote writes a string as JSON in ASCII, as Python's json does. That of fastjson has
// Go's escapes, which are not JSON.
func quote(s string) string {
	quoted := []byte{'"'}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			quoted = append(quoted, '\\', byte(r))
		case r >= ' ' && r <= '~':
			quoted = append(quoted, byte(r))
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				quoted = fmt.Appendf(quoted, `\u%04x`, unit)
			}
		}
	}
	return string(append(quoted, '"'))
}
