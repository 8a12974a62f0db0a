// Package userdata makes what a server is given as user-data, and reads it back:
// a cloud-config that brings the node file and what belongs to it and starts
// kollet, alone or as one part of a MIME multipart message like those that Heat
// makes. What cloud-init does with each part is in its documentation
// (doc/rtd/explanation/format.rst).
package userdata

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/kollet/kollet/configs/report"
)

// NovaLimit is how long user-data in base64 may be, for Nova: the column of its
// database and the schema of its API (nova/api/openstack/compute/schemas/servers.py).
const NovaLimit = 65535

// Part is one part of user-data.
type Part struct {
	Type  string // a MIME type of Types
	Name  string // file name; cloud-init runs scripts in the order of their names
	Data  []byte
	Merge string // of a cloud-config: how it is merged with those before it, if not as cloud-init would
}

// Format is the form of user-data.
type Format string

// Formats. Auto is CloudConfig where one part is all there is.
const (
	Auto        Format = "auto"
	CloudConfig Format = "cloud-config"
	Multipart   Format = "multipart"
)

// Recipe is what user-data is made of.
type Recipe struct {
	Node   Node
	Parts  []Part // the operator's own, before kollet's
	Stored []Part // of StoredType: kept on the node below StoredDir
	Format Format
	Gzip   bool
	Limit  int // of the base64 form; 0: none
}

// Build makes user-data. Every problem of what goes into it is in the error.
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

// assemble puts the operator's parts in order. kollet's own cloud-config comes
// after them, so that its runcmd is the last and its end is what cloud-init
// reports.
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

// fileName is a name that cloud-init keeps as it is (clean_filename in
// cloudinit/util.py) and that a header needs no encoding for.
var fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

var unusual = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

func plainName(name string) string {
	return strings.TrimLeft(unusual.ReplaceAllString(path.Base(name), "-"), ".-")
}

// choose settles the format.
func choose(f Format, parts []Part) (Format, error) {
	plain := len(parts) == 1 && !looksLikeMIME(parts[0].Data)
	switch {
	case f == Multipart, f != CloudConfig && !plain:
		return Multipart, nil
	case plain:
		return CloudConfig, nil
	case len(parts) > 1:
		return "", fmt.Errorf("format cloud-config holds kollet's part alone, and %d others were given; use format multipart, or leave them out", len(parts)-1)
	}
	return "", fmt.Errorf("a file says Mime-Version near its beginning, for which cloud-init would take a plain cloud-config to be a message; use format multipart")
}
