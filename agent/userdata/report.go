package userdata

// Report is what people may see of user-data: everything but the contents of
// files, which may be secrets.
type Report struct {
	Format Format       `json:"format"`
	Gzip   bool         `json:"gzip"`
	Base64 bool         `json:"base64"`  // it was read in base64
	Size   int          `json:"size"`    // of the user-data, as a server gets it
	As64   int          `json:"encoded"` // of its base64 form
	Limit  int          `json:"limit"`   // of that, for Nova
	Parts  []PartReport `json:"parts"`
}

// PartReport is about one part.
type PartReport struct {
	Type     string    `json:"type"`
	Name     string    `json:"name,omitempty"`
	Size     int       `json:"size"`
	Merge    string    `json:"merge,omitempty"`
	Note     string    `json:"note,omitempty"` // what cloud-init does that one may not expect
	Files    []Written `json:"files,omitempty"`
	Commands int       `json:"commands,omitempty"` // in runcmd
}

// Report describes a message.
func (m *Message) Report() Report {
	r := Report{Format: m.Format, Gzip: m.Gzip, Size: len(m.Data), As64: m.Encoded(), Limit: NovaLimit}
	handled := false
	for _, p := range m.Parts {
		part := PartReport{Type: p.Type, Name: p.Name, Size: len(p.Data), Merge: p.Merge}
		known := ParseType(p.Type)
		switch {
		case p.Type == PartHandler:
			handled = true
		case p.Type == CloudConfigType:
			part.Files, part.Commands = filesOf(p.Data)
		case p.Type == StoredType && handled:
			part.Note = "kept as " + StoredDir + "/" + p.Name
		case known == "" && !handled:
			part.Note = "cloud-init has no handler for this type and leaves it out"
		}
		r.Parts = append(r.Parts, part)
	}
	return r
}
