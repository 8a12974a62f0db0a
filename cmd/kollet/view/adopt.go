package view

import "github.com/kollet/kollet/agent/adopt"

// Adoption shows a proposed node file, which has the findings as comments.
type Adoption adopt.Proposal

func (a Adoption) text(t *text) { t.WriteString(clean(a.NodeFile)) }
