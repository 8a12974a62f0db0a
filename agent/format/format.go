// Package format refuses files of kollet's state that this version cannot
// read: those of another format, and those with content that the format does
// not define.
package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kollet/kollet/agent/printable"
)

// UnknownError means that a file holds something that this version of kollet
// does not know. The file is not damaged: another version wrote it.
type UnknownError struct {
	File   string
	Line   int    // 0: the file as a whole
	What   string // what is not known, such as `unknown step "drain"`
	Step   string // the last step that the file records; empty if there is none
	Writer string // version of the kollet that wrote the file; empty if the file does not say
}

func (e *UnknownError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": " + printable.Line(e.What))
	if e.Step != "" {
		fmt.Fprintf(&b, " (last step: %s)", printable.Line(e.Step))
	}
	switch {
	case e.Writer == "":
		b.WriteString(", written by an unknown version of kollet; use the version that wrote it")
	case e.What == noFormat: // newer versions do not read it either
		fmt.Fprintf(&b, ", written by kollet %s; use that version", printable.Line(e.Writer))
	default:
		fmt.Fprintf(&b, ", written by kollet %s; use that version or a newer one", printable.Line(e.Writer))
	}
	return b.String()
}

// DamagedError means that what a file of kollet's state holds makes no sense: no version
// wrote it.
type DamagedError struct{ Err error }

func (e *DamagedError) Error() string { return e.Err.Error() }
func (e *DamagedError) Unwrap() error { return e.Err }

// noFormat is what a file lacks that was written before formats had numbers.
const noFormat = "no format number"

// Header is what every file has in every format.
type Header struct {
	Format int    `json:"format"`
	Kollet string `json:"kollet,omitempty"` // version that wrote the file
}

// Unknown says how the header's format differs from the one that is known;
// empty if it does not.
func (h Header) Unknown(known int) string {
	switch h.Format {
	case known:
		return ""
	case 0:
		return noFormat
	}
	return fmt.Sprintf("unknown format %d", h.Format)
}

// Decode reads a JSON file into v. It returns an UnknownError if the file's
// format is not the one that is known, or if it has fields that v does not have, and
// else a DamagedError if it cannot be read.
func Decode(file string, data []byte, known int, v any) error {
	var h Header
	if err := json.Unmarshal(data, &h); err != nil {
		return &DamagedError{err}
	}
	what := h.Unknown(known)
	if what == "" {
		var err error
		if what, err = Strict(data, v); err != nil {
			return &DamagedError{err}
		}
	}
	if what != "" {
		return &UnknownError{File: file, What: what, Writer: h.Kollet}
	}
	return nil
}

// Strict reads JSON data into v, and names a field that v does not have; unknown is
// empty if v has them all. Data is read once if nothing is wrong with it: every
// command reads records.
func Strict(data []byte, v any) (unknown string, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	strict := d.Decode(v)
	if strict == nil {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return "", nil
		}
	}
	if err := json.Unmarshal(data, v); err != nil {
		return "", err
	}
	return strings.TrimPrefix(strict.Error(), "json: "), nil
}
