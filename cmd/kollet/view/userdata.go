package view

import (
	"fmt"
	"strconv"

	"github.com/docker/go-units"

	"github.com/kollet/kollet/agent/userdata"
)

// UserData shows a summary of user-data, or with Data the user-data itself.
type UserData struct {
	userdata.Report
	Path string `json:"path,omitempty"`      // where it was written
	Data []byte `json:"user_data,omitempty"` // in base64, as Nova's API takes it
}

func (u UserData) text(t *text) {
	if u.Data != nil && t.terminal { // its parts may have anything in them
		t.WriteString(clean(string(u.Data)))
		return
	}
	if u.Data != nil {
		t.Write(u.Data) // for servers, not for people
		return
	}
	if u.Path != "" {
		t.line("wrote %s", u.Path)
	}
	form := string(u.Format)
	if u.Gzip {
		form += ", gzip"
	}
	if u.Base64 {
		form += ", base64"
	}
	t.line("%s: %s; %d bytes base64-encoded, Nova's limit is %d", form, size(u.Size), u.As64, u.Limit)
	t.line("")
	var parts, files [][]string
	for i, p := range u.Parts {
		number := strconv.Itoa(i + 1)
		note := p.Note
		if p.Commands > 0 {
			note = "runs " + count(p.Commands, "command")
		}
		parts = append(parts, []string{number, p.Type, p.Name, size(p.Size), note})
		for _, f := range p.Files {
			files = append(files, []string{f.Path, f.Owner, f.Permissions, size(f.Size), number})
		}
	}
	t.table([]string{"PART", "TYPE", "NAME", "SIZE", "NOTE"}, parts, func(row int) string {
		if u.Parts[row].Note != "" && u.Parts[row].Type != userdata.StoredType {
			return yellow
		}
		return ""
	})
	if len(files) > 0 {
		t.line("")
		t.table([]string{"FILE", "OWNER", "PERM", "SIZE", "PART"}, files, nil)
	}
}

// size formats a number of bytes.
func size(n int) string {
	if n < 10_000 {
		return fmt.Sprintf("%d B", n)
	}
	return units.BytesSize(float64(n))
}
