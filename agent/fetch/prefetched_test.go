package fetch

import (
	"slices"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
)

// A pull keeps what garbage collection would remove, and gives it no image that someone else
// brought to this machine: that is not kollet's to remove when another pull replaces it.
func TestKeepPrefetched(t *testing.T) {
	n := &node.Node{Root: t.TempDir()}
	services := func(images ...string) []generation.Service {
		var all []generation.Service
		for _, id := range images {
			all = append(all, generation.Service{Name: id, Image: generation.Image{ID: id}})
		}
		return all
	}
	old := generation.Generation{Number: 1, Services: services("old")}
	if err := n.Store().Write(old, nil, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	current := generation.Generation{Number: 2, Services: services("current")}
	for _, step := range []struct {
		fetched      string
		next         []string
		images, left []string
	}{
		{"pulled", []string{"pulled", "old", "theirs", "current"}, []string{"old", "pulled"}, nil},
		{"other", []string{"other", "old", "theirs"}, []string{"old", "other"}, []string{"pulled"}},
		{"other", []string{"theirs", "pulled"}, []string{"pulled"}, []string{"old", "other"}},
	} {
		if err := recordFetched(n, step.fetched); err != nil {
			t.Fatal(err)
		}
		if err := KeepPrefetched(n, services(step.next...), current); err != nil {
			t.Fatal(err)
		}
		got, err := n.Store().Prefetched()
		if err != nil || !slices.Equal(got.Images, step.images) || !slices.Equal(got.Left, step.left) {
			t.Errorf("%v: %+v, %v", step.next, got, err)
		}
	}
}
