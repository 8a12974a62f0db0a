package userdata

import (
	"bytes"
	_ "embed" // the part handler
	"net/url"
	"slices"
	"strings"

	"github.com/kollet/kollet/configs/report"
)

// Types of parts that are dealt with by name.
const (
	CloudConfigType = "text/cloud-config"
	ShellScript     = "text/x-shellscript"
	PartHandler     = "text/part-handler"
	StoredType      = "application/x-kollet-file"
)

// StoredDir is where the part handler keeps parts of StoredType.
const StoredDir = "/var/lib/kollet/parts"

//go:embed part_handler.py
var partHandler []byte

// kind is a type that cloud-init handles, and how content of it begins; what
// begins otherwise has to be given by name (cloudinit/handlers/__init__.py).
type kind struct{ mime, begins string }

// kinds is ordered so that of two beginnings the longer comes first.
var kinds = []kind{
	{"text/cloud-config-archive", "#cloud-config-archive"},
	{"text/cloud-config-jsonp", "#cloud-config-jsonp"},
	{CloudConfigType, "#cloud-config"},
	{"text/cloud-boothook", "#cloud-boothook"},
	{"text/x-include-once-url", "#include-once"},
	{"text/x-include-url", "#include"},
	{PartHandler, "#part-handler"},
	{"text/jinja2", "## template: jinja"},
	{ShellScript, "#!"},
	{"text/x-shellscript-per-boot", ""},
	{"text/x-shellscript-per-instance", ""},
	{"text/x-shellscript-per-once", ""},
}

// Types returns the types that a part can have, in short: without text/ and x-.
func Types() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, short(k.mime))
	}
	slices.Sort(names)
	return names
}

func short(mime string) string {
	return strings.TrimPrefix(strings.TrimPrefix(mime, "text/"), "x-")
}

// ParseType returns the MIME type of a name of Types or a whole MIME type; ""
// if there is none.
func ParseType(name string) string {
	for _, k := range kinds {
		if strings.EqualFold(name, k.mime) || strings.EqualFold(name, short(k.mime)) {
			return k.mime
		}
	}
	return ""
}

// TypeOf tells a type by how its content begins, as cloud-init does; "" if it
// does not.
func TypeOf(data []byte) string {
	start := bytes.ToLower(bytes.TrimLeft(data[:min(len(data), 4096)], " \t\r\n\v\f"))
	for _, k := range kinds {
		if k.begins != "" && bytes.HasPrefix(start, []byte(k.begins)) {
			return k.mime
		}
	}
	return ""
}

// beginning is how content of a type has to begin; "" if that is free.
func beginning(mime string) string {
	for _, k := range kinds {
		if k.mime == mime {
			return k.begins
		}
	}
	return ""
}

// check finds what cloud-init would stumble over on the server.
func (p Part) check(problems *report.Problems) {
	at := report.Place{File: p.Name}
	switch {
	case len(bytes.TrimSpace(p.Data)) == 0:
		problems.Addf(at, "", "the part is empty; leave it out")
	case p.Type == ShellScript && TypeOf(p.Data) != ShellScript:
		problems.Addf(at, "", "a shell script begins with #! and the path of its interpreter")
	case p.Type == "text/jinja2" && TypeOf(p.Data) != p.Type:
		problems.Addf(at, "", "expected %q as its first line", beginning(p.Type))
	case p.Type == CloudConfigType:
		checkCloudConfig(p.Name, p.Data, problems)
	case strings.HasPrefix(p.Type, "text/x-include"):
		p.checkInclude(problems)
	}
}

// checkInclude goes over the lines of an include file as cloud-init does: one
// URL each, also on the first line, behind its mark.
func (p Part) checkInclude(problems *report.Problems) {
	found, number := false, 0
	for line := range strings.Lines(string(p.Data)) {
		number++
		for _, mark := range []string{"#include-once", "#include"} {
			if len(line) >= len(mark) && strings.EqualFold(line[:len(mark)], mark) {
				line = line[len(mark):]
				break
			}
		}
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		found = true
		if u, err := url.Parse(line); err != nil || !slices.Contains([]string{"http", "https", "file"}, u.Scheme) {
			problems.Addf(report.Place{File: p.Name, Line: number, Column: 1}, "", "expected a URL (http, https, file), got %q", line)
		}
	}
	if !found {
		problems.Addf(report.Place{File: p.Name}, "", "the include file names no URL; write one a line")
	}
}

// looksLikeMIME is how cloud-init tells a message from other user-data
// (convert_string in cloudinit/user_data.py).
func looksLikeMIME(data []byte) bool {
	return bytes.Contains(bytes.ToLower(data[:min(len(data), 4096)]), []byte("mime-version:"))
}
