package userdata

// Report describes user-data without the contents of files, which may be secret.
type Report struct {
	Format Format       `json:"format"`
	Gzip   bool         `json:"gzip"`
	Base64 bool         `json:"base64"`  // the data was base64-encoded
	Size   int          `json:"size"`    // as a server receives it
	As64   int          `json:"encoded"` // base64-encoded
	Limit  int          `json:"limit"`   // for Encoded, by Nova
	Parts  []PartReport `json:"parts"`
}

// PartReport describes one part.
type PartReport struct {
	Type     string    `json:"type"`
	Name     string    `json:"name,omitempty"`
	Size     int       `json:"size"`
	Merge    string    `json:"merge,omitempty"`
	Note     string    `json:"note,omitempty"` // what cloud-init does, if unexpected
	Files    []Written `json:"files,omitempty"`
	Commands int       `json:"commands,omitempty"` // in runcmd
}

// Report returns a description of the message.
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
			part.Note = "cloud-init has no handler for this type and ignores it"
		}
		r.Parts = append(r.Parts, part)
	}
	return r
}
