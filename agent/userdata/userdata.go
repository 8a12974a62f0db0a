// Package userdata creates and reads cloud-init user-data: a cloud-config that
// writes the node file and the files that it names and starts kollet, alone or as
// one part of a MIME multipart message like those of Heat. cloud-init's
// documentation says how it handles each part (doc/rtd/explanation/format.rst).
package userdata

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/kollet/kollet/configs/report"
)

// NovaLimit is Nova's limit for base64-encoded user-data in bytes. It is the size
// of its database column and in the schema of its API
// (nova/api/openstack/compute/schemas/servers.py).
const NovaLimit = 65535

// Part is one part of user-data.
type Part struct {
	Type  string // a MIME type of Types
	Name  string // file name; cloud-init runs scripts in the order of their names
	Data  []byte
	Merge string // how cloud-init merges a cloud-config with earlier parts; "": its default
}

// Format is the form of user-data.
type Format string

// Formats. Auto is CloudConfig if there is only one part, else Multipart.
const (
	Auto        Format = "auto"
	CloudConfig Format = "cloud-config"
	Multipart   Format = "multipart"
)

// Recipe is the input of Build.
type Recipe struct {
	Node   Node
	Parts  []Part // the operator's own, before kollet's
	Stored []Part // of StoredType: kept on the node below StoredDir
	Format Format
	Gzip   bool
	Limit  int // in bytes of base64; 0: no limit
}

// Build creates user-data. The error contains every problem of its input.
func Build(r Recipe) (*Message, error) {
	var problems report.Problems
	own := r.Node.part(&problems)
	parts := assemble(r, &problems)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	parts = append(parts, own)
	format, err := choose(r.Format, parts)
	if err != nil {
		return nil, err
	}
	m := encode(parts, format, r.Gzip)
	return m, m.fits(r.Limit)
}

// assemble returns the operator's parts in order. kollet's own cloud-config comes
// after them, so that cloud-init runs its runcmd last and reports its exit status.
func assemble(r Recipe, problems *report.Problems) []Part {
	var parts []Part
	if len(r.Stored) > 0 {
		parts = append(parts, Part{Type: PartHandler, Name: "kollet-part-handler.py", Data: partHandler})
	}
	names := map[string]bool{}
	for _, p := range r.Stored {
		if !fileName.MatchString(p.Name) {
			problems.Addf(report.Place{File: p.Name}, "", "a stored part needs a plain file name of letters, digits, '.', '_' and '-'; rename it")
		}
		if names[p.Name] {
			problems.Addf(report.Place{File: p.Name}, "", "two stored parts have this name; rename one")
		}
		names[p.Name] = true
		p.Type = StoredType
		parts = append(parts, p)
	}
	for i, p := range r.Parts {
		p.check(problems)
		p.Name = fmt.Sprintf("%02d-%s", i+1, plainName(p.Name))
		if p.Type == CloudConfigType && !mergesItself(p.Data) {
			p.Merge = mergeLists
		}
		parts = append(parts, p)
	}
	return parts
}

// fileName matches names that cloud-init does not change (clean_filename in
// cloudinit/util.py) and that need no encoding in a header.
var fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

var unusual = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

func plainName(name string) string {
	return strings.TrimLeft(unusual.ReplaceAllString(path.Base(name), "-"), ".-")
}

// choose returns the format to use.
func choose(f Format, parts []Part) (Format, error) {
	plain := len(parts) == 1 && !looksLikeMIME(parts[0].Data)
	switch {
	case f == Multipart, f != CloudConfig && !plain:
		return Multipart, nil
	case plain:
		return CloudConfig, nil
	case len(parts) > 1:
		return "", fmt.Errorf("format cloud-config has only kollet's part, and %d others were given; use format multipart, or omit them", len(parts)-1)
	}
	return "", fmt.Errorf("a file contains Mime-Version near its start, and cloud-init would parse a plain cloud-config with it as a MIME message; use format multipart")
}
