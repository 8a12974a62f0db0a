package view

// Files shows paths that were written.
type Files []string

func (f Files) text(t *text) {
	for _, path := range f {
		t.line("%s", path)
	}
}
