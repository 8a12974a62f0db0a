package agent

import (
	"slices"
	"testing"
)

// No name is empty: `kollet guests` lists them.
func TestHierarchyNames(t *testing.T) {
	for _, c := range []struct{ found, want []string }{
		{nil, nil},
		{[]string{""}, []string{"unified"}},
		{[]string{"", "blkio", "name=systemd"}, []string{"unified", "blkio", "name=systemd"}},
	} {
		if got := hierarchyNames(c.found); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.found, got, c.want)
		}
	}
}
