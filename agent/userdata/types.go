package userdata

import (
	"bytes"
	_ "embed" // the part handler
	"net/url"
	"slices"
	"strings"

	"github.com/kollet/kollet/configs/report"
)

// MIME types that kollet treats specially.
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

// kind is a type that cloud-init handles, and how its content begins. A type
// without a beginning must be given explicitly (cloudinit/handlers/__init__.py).
type kind struct{ mime, begins string }

// kinds is sorted so that longer beginnings come before their prefixes.
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

// Types returns the short names of the types that a part can have: without text/
// and x-.
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

// ParseType returns the MIME type for a short or full name, or "" if it is unknown.
func ParseType(name string) string {
	for _, k := range kinds {
		if strings.EqualFold(name, k.mime) || strings.EqualFold(name, short(k.mime)) {
			return k.mime
		}
	}
	return ""
}

// TypeOf returns the MIME type of content by its beginning, as cloud-init does, or
// "" if it is unknown.
func TypeOf(data []byte) string {
	start := bytes.ToLower(bytes.TrimLeft(data[:min(len(data), 4096)], " \t\r\n\v\f"))
	for _, k := range kinds {
		if k.begins != "" && bytes.HasPrefix(start, []byte(k.begins)) {
			return k.mime
		}
	}
	return ""
}

// beginning returns how content of a type must begin, or "" if it need not.
func beginning(mime string) string {
	for _, k := range kinds {
		if k.mime == mime {
			return k.begins
		}
	}
	return ""
}

// check finds what cloud-init would reject on the server.
func (p Part) check(problems *report.Problems) {
	at := report.Place{File: p.Name}
	switch {
	case len(bytes.TrimSpace(p.Data)) == 0:
		problems.Addf(at, "", "the part is empty; omit it")
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

// checkInclude checks the lines of an include file as cloud-init reads them: one
// URL per line, also on the first line after the marker.
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
		problems.Addf(report.Place{File: p.Name}, "", "the include file has no URL; write one per line")
	}
}

// looksLikeMIME reports whether cloud-init parses user-data as a MIME message
// (convert_string in cloudinit/user_data.py).
func looksLikeMIME(data []byte) bool {
	return bytes.Contains(bytes.ToLower(data[:min(len(data), 4096)]), []byte("mime-version:"))
}
