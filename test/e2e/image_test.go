package e2e

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/plan"
)

// hotfixStays gives an upgrade another tag and another image than the node file's, and has the
// node upgraded for other reasons until the node file says the same, or they are dropped.
func hotfixStays(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	hotfix := n.Must(0, "upgrade", "--tag", "v2")
	contains(t, hotfix.Stdout, "tag v2 instead of the node file's v1")
	contains(t, n.Must(0, "status").Stdout, "tag v2 instead of the node file's", "--drop-tag")
	contains(t, n.Must(0, "plan").Stdout, "nothing to do", "tag v2 instead of the node file's v1")

	p.configure(n, "v1", "another setting", "")
	n.Must(0, "upgrade")
	image := func() string { return n.Service("beta").Image }
	if !strings.HasSuffix(image(), ":v2") {
		t.Errorf("an upgrade for another reason took the hotfix back: %s", image())
	}

	// A rollback to before the hotfix has the generation's images, and no hotfix.
	n.Must(0, "rollback", "1")
	if !strings.HasSuffix(image(), ":v1") {
		t.Errorf("after the rollback: %s", image())
	}
	if h := hotfixes(t, n); len(h) > 0 {
		t.Errorf("a rolled back hotfix is left: %+v", h)
	}

	n.Must(0, "upgrade", "--image", "beta="+strings.TrimSuffix(image(), "1")+"2")
	contains(t, n.Must(0, "history").Stdout, "--image beta="+image())
	n.Must(2, "upgrade", "--drop-image", "bet")
	// An upgrade that fails changes none, and says nothing of them.
	failed := n.Must(1, "upgrade", "--image", "alpha="+strings.TrimSuffix(image(), "2")+"9")
	if strings.Contains(failed.All(), "hotfix") {
		t.Errorf("a failed upgrade says:\n%s", failed.All())
	}
	dropped := n.Must(0, "upgrade", "--drop-image", "beta")
	contains(t, dropped.Stdout, "is dropped")
	if !strings.HasSuffix(image(), ":v1") {
		t.Errorf("a dropped hotfix is left: %s", image())
	}

	// Written into the node file, the image stays, and nothing is replaced for it. It is the
	// node file's from then on: when that changes, so does the image.
	n.Must(0, "upgrade", "--tag", "v2")
	kept := n.Service("beta").PID
	file := n.read(node.DefaultNodeFile)
	n.Write(node.DefaultNodeFile, strings.Replace(file, "tag: v1", "tag: v2", 1))
	if o := n.Must(0, "upgrade"); n.Service("beta").PID != kept {
		t.Errorf("beta was replaced:\n%s", o.All())
	}
	n.Write(node.DefaultNodeFile, file)
	n.Must(0, "upgrade")
	if !strings.HasSuffix(image(), ":v1") {
		t.Errorf("a hotfix came back: %s", image())
	}
}

// hotfixes returns those that the plan and the status name.
func hotfixes(t *testing.T, n *testNode) []plan.Hotfix {
	t.Helper()
	var planned plan.Plan
	n.Ask(&planned, "plan")
	var status agent.Status
	n.Ask(&status, "status")
	if status.Hotfix.IsZero() != (len(planned.Hotfixes) == 0) {
		t.Errorf("status has %+v, the plan %+v", status.Hotfix, planned.Hotfixes)
	}
	return planned.Hotfixes
}
