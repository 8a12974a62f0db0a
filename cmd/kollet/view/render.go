package view

// Files shows the paths of written files.
type Files []string

func (f Files) text(t *text) {
	for _, path := range f {
		t.line("%s", path)
	}
}
