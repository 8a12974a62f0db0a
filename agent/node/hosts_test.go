package node

import (
	"os"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/nodefile"
)

func TestHosts(t *testing.T) {
	n := &Node{Root: t.TempDir()}
	for number, guests := range []*nodefile.Guests{1: nil, 2: {}, 3: nil} {
		g := generation.Generation{Number: number, Services: []generation.Service{{Name: "libvirt", Origin: 1, Guests: guests}, {Name: "agent", Origin: number}}}
		if number == 0 {
			continue
		}
		if err := n.Store().Write(g, nil, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(generation int, service string, want bool) {
		t.Helper()
		if got := n.Hosts()(generation, service); got != want {
			t.Errorf("%s of generation %d may start guests: %v", service, generation, got)
		}
	}
	expect(1, "libvirt", true) // as generation 2 says, which has the same container
	expect(3, "libvirt", true)
	expect(1, "agent", false)
	expect(3, "other", false)
	expect(4, "agent", true) // its record is lost
	expect(0, "agent", true)
	if err := os.MkdirAll(n.Store().Path(4), 0o700); err != nil {
		t.Fatal(err)
	}
	expect(1, "agent", true) // what generation 4 said is not known
}
