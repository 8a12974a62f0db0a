package view

// Resumed shows that there was no bootstrap to go on with.
type Resumed struct {
	Found bool `json:"found"`
}

func (r Resumed) text(t *text) { t.line("nothing to resume: no bootstrap was interrupted") }
