package view

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/agent"
)

func TestPulled(t *testing.T) {
	shared := agent.PulledImage{Services: []string{"a", "b"}, Ref: "r/web:2", ID: "sha256:2", New: true}
	here := agent.PulledImage{Services: []string{"c"}, Ref: "r/db:1", ID: "sha256:1"}
	for _, c := range []struct {
		name   string
		images []agent.PulledImage
		want   string
	}{
		{"none", nil, "nothing to pull: all images of the next upgrade are on this machine\n"},
		{"all here", []agent.PulledImage{here}, "nothing to pull: all images of the next upgrade are on this machine\n"},
		{"one pulled", []agent.PulledImage{shared, here}, `
IMAGE             SERVICES
r/web:2  pulled   a, b
r/db:1   present  c
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, out, _ := screen(Table)
			if err := New(s).Show(Pulled{Images: c.images}); err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimPrefix(c.want, "\n"); out.String() != want {
				t.Errorf("got:\n%s\nwant:\n%s", out, want)
			}
		})
	}
}
