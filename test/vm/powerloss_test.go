package vm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/firstboot"
	"github.com/kollet/kollet/test/vm/channel"
)

// losses returns the number of power losses: KOLLET_POWER_LOSSES, or 5.
func losses(t *testing.T) int {
	t.Helper()
	text := os.Getenv("KOLLET_POWER_LOSSES")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("KOLLET_POWER_LOSSES: expected a number of power losses, got %q", text)
	}
	return n
}

// TestPowerLoss cuts a node's power at random times during upgrades. After the next
// boot, unattended, all services must be healthy and on the same generation.
func TestPowerLoss(t *testing.T) {
	n := newNode(t, plan{name: "powerloss", seed: "nocloud", direct: true, memory: 2048, nodeFile: tinyNode("v1"), tools: tinyImages(t)})
	n.powerOn()
	n.firstBoot()

	// Power losses are spread over the time that an undisturbed upgrade takes.
	n.write(nodeFile, tinyNode("v2"))
	began := time.Now()
	n.must("kollet", "upgrade")
	whole := time.Since(began)
	n.t.Logf("an upgrade takes %.1f s", whole.Seconds())

	ends := map[string]int{}
	for i := range losses(t) {
		old := n.tag()
		next := map[string]string{"v1": "v2", "v2": "v1"}[old]
		n.write(nodeFile, tinyNode(next))
		after := time.Duration(rand.Int64N(int64(whole)))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = n.client.Do(ctx, channel.Request{Argv: []string{"kollet", "upgrade"}}) }() // ends with the virtual machine
		time.Sleep(after)
		cancel()
		n.powerLoss()
		n.powerOn()
		n.up()
		n.healthy()
		n.must("kollet", "verify")
		now := n.tag()
		ends[map[bool]string{true: "old", false: "new"}[now == old]]++
		if now == next {
			whole = min(whole, after) // the upgrade had committed
		}
		t.Logf("power loss %d, %.1f s into an upgrade from %s to %s: %s\n%s", i+1, after.Seconds(), old, next, now, n.recovery())
	}
	t.Logf("%v", ends)
}

const nodeFile = "/etc/kollet/node.yaml"

// tag returns the version of all services. It fails if images or answers are of
// different versions.
func (n *node) tag() string {
	n.t.Helper()
	tags := map[string]bool{}
	var tag string
	for i, s := range n.healthy().Services {
		_, _ = fmt.Sscanf(s.Image, repository+"/tiny:%s", &tag)
		tags[tag] = true
		var pid int
		var says string
		_, _ = fmt.Sscan(n.must("docker", "exec", s.Name, "/bin/tiny", "ask", fmt.Sprintf("127.0.0.1:700%d", i+1)), &pid, &says)
		tags[says] = true
	}
	if len(tags) != 1 || tag == "" {
		n.t.Fatalf("the services have different versions: %v", tags)
	}
	return tag
}

// recovery returns what kollet logged during this boot.
func (n *node) recovery() string {
	n.t.Helper()
	return n.must("journalctl", "--no-pager", "-b", "-o", "cat", "-u", firstboot.UnitName, "-t", "kollet")
}
