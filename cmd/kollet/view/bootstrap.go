package view

// Resumed shows that there was no bootstrap to resume.
type Resumed struct {
	Found bool `json:"found"`
}

func (r Resumed) text(t *text) { t.line("nothing to resume: no bootstrap was interrupted") }
