package faults

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// The services of a node. beta depends on alpha, and alpha starts a guest.
var services = []string{"alpha", "beta"}

// victim is a node on which calls fail, and what it should be.
type victim struct {
	*nodetest.Node
	engine   nodetest.Engine
	registry *machine.Registry
	port     int      // of alpha; beta has the next
	tag      string   // of the images and in the config files of the generation that runs
	images   string   // more settings of images in the node file
	uuid     string   // of its guest, which is another process in every attempt
	nursery  *nursery // nil: alpha starts no guests by itself

	starved int // how many processes got little memory
	pushed  int // images
	guest   *os.Process
	exposed bool // the engine may have killed the guest
}

// newVictim returns a node on its second generation.
func newVictim(t testing.TB, engine nodetest.Engine, registry *machine.Registry, port int) *victim {
	t.Helper()
	v := newVictimAt(t, engine, registry, port, t.TempDir())
	v.begin()
	return v
}

// begin brings the node to its second generation.
func (v *victim) begin() {
	v.T.Helper()
	v.configure("v1", false)
	v.Must(0, "bootstrap")
	v.configure("v2", false)
	v.Must(0, upgrade...)
	v.tag = "v2"
	check(v.T, v.whole(v.tag))
}

// newVictimAt returns a node without services, with its file-system root at a path.
func newVictimAt(t testing.TB, engine nodetest.Engine, registry *machine.Registry, port int, root string) *victim {
	t.Helper()
	id := make([]byte, 6)
	_, _ = rand.Read(id)
	return &victim{Node: nodetest.NewAt(t, engine, root), engine: engine, registry: registry, port: port, uuid: fmt.Sprintf("8a1b0000-0000-4000-8000-%x", id)}
}

// other returns the version of the next upgrade.
func (v *victim) other() string {
	if v.tag == "v1" {
		return "v2"
	}
	return "v1"
}

// startVar says how long services may take to start, if the machine is slow.
const startVar = "KOLLET_CHAOS_START_PERIOD"

// configure writes a node file. With broken, beta exits by itself soon after it was
// started.
func (v *victim) configure(tag string, broken bool) {
	v.T.Helper()
	alpha := fmt.Sprintf(`[serve, "127.0.0.1:%d", /etc/word]`, v.port)
	volumes := ""
	if v.nursery != nil {
		alpha, volumes = v.nursery.command(fmt.Sprintf("127.0.0.1:%d", v.port), v.uuid), v.nursery.volumes()
	}
	beta := fmt.Sprintf(`[serve, "127.0.0.1:%d", /etc/word]`, v.port+1)
	if broken {
		beta = `[fail, "the disk is gone"]`
	}
	timing := fmt.Sprintf("start_period: %s, stable: 20ms, interval: 10ms", cmp.Or(os.Getenv(startVar), "15s"))
	config := `config: [{content: "{{ .vars.word }}\n", dest: /etc/word, owner: root, perm: "0600"}]`
	v.Write(node.DefaultNodeFile, fmt.Sprintf(`profile: none
engine: %s
images: {registry: %s/test, tag: %s%s}
keep_generations: 1
vars: {word: %s}
services:
  alpha:
    image: tiny
    pid: host
    command: %s
    guests: {list: [/bin/tiny, say, %s]}
    %s
    %s
    healthcheck: [{tcp: "127.0.0.1:%d", %s}]
  beta:
    image: tiny
    pid: host
    command: %s
    depends_on: [alpha]
    %s
    healthcheck: [{exec: [/bin/tiny, ask, "127.0.0.1:%d"], %s}]
`, v.engine.Name, v.registry.Addr, tag, v.images, tag, alpha, v.uuid, volumes, config, v.port, timing, beta, config, v.port+1, timing))
}

// scenario is a command in which calls fail.
type scenario struct {
	name   string
	broken bool // the upgrade fails and is rolled back
	args   []string
	// For a recovery, the event and the step after whose record the upgrade was killed.
	event journal.Event
	step  journal.StepKind
}

var upgrade = []string{"upgrade", "--force"} // tiny guests run on no QEMU whose version could be asked

var (
	bootstraps         = scenario{name: "bootstrap", args: []string{"bootstrap"}}
	upgrades           = scenario{name: "upgrade", args: upgrade}
	rollsBack          = scenario{name: "rollback", args: upgrade, broken: true}
	recoversBack       = scenario{name: "recovery that rolls back", args: recovery, event: journal.Done, step: journal.CutOver}
	recoversTheUpgrade = scenario{name: "recovery after the commit", args: recovery, event: journal.Commit}
	rollbackCommand    = scenario{name: "kollet rollback", args: []string{"rollback", "--force"}}
)

// prepare brings the node to where the scenario's command begins. It returns what arms a
// trigger.
func (v *victim) prepare(s scenario) (armed func() bool, err error) {
	v.configure(v.other(), s.broken)
	if s.event == "" {
		return v.armed(s), nil
	}
	if o := v.Stepwise(upgrade, func(int) bool { return v.reached(s) }); o.Code != -1 {
		return nil, fmt.Errorf("the upgrade to recover from was not killed: exit status %d\n%s", o.Code, o.All())
	}
	return nil, nil
}

// armed returns what arms a trigger in a scenario whose upgrade fails: what comes before the
// failure is in the one that does not. In others a trigger is armed from the start.
func (v *victim) armed(s scenario) func() bool {
	if !s.broken {
		return nil
	}
	before := v.lastJournal()
	return func() bool {
		last := v.lastJournal()
		text, _ := os.ReadFile(last)
		return last != before && bytes.Contains(text, []byte(`"event":"failed"`))
	}
}

// reached reports whether the last record is the one after which the scenario's upgrade is
// killed. Of the cutovers that is the last, beta's.
func (v *victim) reached(s scenario) bool {
	all := v.records()
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	return last.Event == s.event && last.Step.Kind == s.step && (s.step != journal.CutOver || slices.Contains(last.Step.Services, "beta"))
}

func (v *victim) journals() []string {
	all, _ := filepath.Glob(v.Path(node.StateDir + "/journal/*.jsonl"))
	return all
}

// lastJournal returns the path of the last journal.
func (v *victim) lastJournal() string {
	all := v.journals()
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// short is the end of a command's messages.
func short(o nodetest.Outcome) string {
	text := strings.TrimSpace(o.Stderr)
	return text[max(0, len(text)-1500):]
}
