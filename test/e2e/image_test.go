package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/plan"
)

// imageForOneUpgrade upgrades with --tag, and then without it for another reason.
func imageForOneUpgrade(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	fixed := n.Must(0, "upgrade", "--tag", "v2")
	contains(t, fixed.Stderr, "the next upgrade without --image and --tag returns to the node file's images of beta")
	n.Must(0, "upgrade", "--tag", "v2") // the same again says nothing, and does nothing
	n.Healthy(2)

	p.configure(n, "v1", "another setting", "")
	var planned plan.Plan
	n.Ask(&planned, "plan")
	if !slices.ContainsFunc(planned.Changes, func(c plan.Change) bool { return c.Service == "beta" && c.Image != nil && c.Image.Returns }) {
		t.Errorf("the plan does not say that it takes the image back: %+v", planned.Changes)
	}
	contains(t, n.Must(0, "upgrade").Stderr, "returns from")

	// Written into the node file, the image stays, and nothing is replaced for it.
	n.Must(0, "upgrade", "--tag", "v2")
	kept := n.Service("beta").PID
	n.Write(node.DefaultNodeFile, strings.Replace(n.read(node.DefaultNodeFile), "tag: v1", "tag: v2", 1))
	if o := n.Must(0, "upgrade"); n.Service("beta").PID != kept {
		t.Errorf("beta was replaced:\n%s", o.All())
	}
}
