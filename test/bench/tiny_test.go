package bench

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/machine"
)

// stable is how long the probes of tiny services have to pass. An upgrade waits
// for that long on purpose.
const stable = 200 * time.Millisecond

// tinies writes the node file of so many tiny services, each with a rendered
// file and a probe. All have the tag but the first, which may have its own.
func tinies(n *testNode, registry *machine.Registry, count int, first, tag string) {
	n.b.Helper()
	var services strings.Builder
	for i := range count {
		address := fmt.Sprintf("127.0.0.1:%d", 7100+i)
		image := imageOf(registry, tag)
		if i == 0 {
			image = imageOf(registry, first)
		}
		fmt.Fprintf(&services, `  %s:
    image: %s
    command: [serve, %q, /etc/tiny.conf]
    pid: host
    config: [{content: "{{ .host }}", dest: /etc/tiny.conf, owner: root, perm: "0600"}]
    healthcheck: [{tcp: %q, start_period: 30s, stable: %v, interval: 50ms}]
`, tinyName(i), image, address, address, stable)
	}
	n.write(node.DefaultNodeFile, fmt.Sprintf("profile: none\nengine: %s\nkeep_generations: 1\nservices:\n%s", n.on.name, services.String()))
}

func tinyName(i int) string { return fmt.Sprintf("tiny-%d", i) }

// run is one command of kollet's: how long it took, and what of that it used a
// processor itself.
type run struct {
	Wall float64 `json:"wall_ms"`
	CPU  float64 `json:"cpu_ms"`
}

// timed runs a command that must succeed.
func timed(b *testing.B, cmd *exec.Cmd) run {
	b.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	begin := time.Now()
	err := cmd.Run()
	took := time.Since(begin)
	if err != nil {
		b.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out.String())
	}
	return run{Wall: ms(took), CPU: ms(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())}
}

// steps of an upgrade, by name, in milliseconds; the cut overs of all services
// together.
func steps(records []journal.Record) map[string]float64 {
	all := map[string]float64{}
	for _, p := range (upgradeTrace{records: records, started: records[0].Time, ended: records[len(records)-1].Time}).phases() {
		all[p.name] += p.ms()
	}
	return all
}
