package faults

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
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
	port     int    // of alpha; beta has the next
	tag      string // of the images and in the config files of the generation that runs
	uuid     string // of its guest, which is another process in every attempt
}

// newVictim returns a node on its second generation. The first upgrade's journal tells the
// records of the others.
func newVictim(t testing.TB, engine nodetest.Engine, registry *machine.Registry, port int) *victim {
	t.Helper()
	id := make([]byte, 6)
	_, _ = rand.Read(id)
	v := &victim{Node: nodetest.New(t, engine), engine: engine, registry: registry, port: port, tag: "v1", uuid: fmt.Sprintf("8a1b0000-0000-4000-8000-%x", id)}
	v.configure("v1", false)
	v.Must(0, "bootstrap")
	v.configure("v2", false)
	v.Must(0, upgrade...)
	v.tag = "v2"
	check(t, v.whole(v.tag))
	return v
}

// other returns the version of the next upgrade.
func (v *victim) other() string {
	if v.tag == "v1" {
		return "v2"
	}
	return "v1"
}

// configure writes a node file. With broken, beta exits by itself soon after it was
// started.
func (v *victim) configure(tag string, broken bool) {
	v.T.Helper()
	beta := fmt.Sprintf(`[serve, "127.0.0.1:%d", /etc/word]`, v.port+1)
	if broken {
		beta = `[fail, "the disk is gone"]`
	}
	config := `config: [{content: "{{ .vars.word }}\n", dest: /etc/word, owner: root, perm: "0600"}]`
	v.Write(node.DefaultNodeFile, fmt.Sprintf(`profile: none
engine: %s
images: {registry: %s/test, tag: %s}
keep_generations: 1
vars: {word: %s}
services:
  alpha:
    image: tiny
    pid: host
    command: [serve, "127.0.0.1:%d", /etc/word]
    guests: {list: [/bin/tiny, say, %s]}
    %s
    healthcheck: [{tcp: "127.0.0.1:%d", start_period: 5s, stable: 20ms, interval: 10ms}]
  beta:
    image: tiny
    pid: host
    command: %s
    depends_on: [alpha]
    %s
    healthcheck: [{exec: [/bin/tiny, ask, "127.0.0.1:%d"], start_period: 5s, stable: 20ms, interval: 10ms}]
`, v.engine.Name, v.registry.Addr, tag, tag, v.port, v.uuid, config, v.port, beta, config, v.port+1))
}

// birth starts the node's guest in alpha, and returns its process.
func (v *victim) birth() (*os.Process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	running, err := v.passed()
	if err != nil {
		return nil, err
	}
	status, err := v.Engine.Exec(ctx, running["alpha"].ID, containers.Exec{Argv: []string{"/bin/tiny", "guest", v.uuid}, Short: true})
	if err != nil || status != 0 {
		return nil, fmt.Errorf("start a guest: exit status %d, %w", status, err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		if bytes.HasPrefix(line, []byte("qemu-system-")) && bytes.Contains(line, []byte(v.uuid)) {
			var pid int
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil {
				return nil, err
			}
			return os.FindProcess(pid)
		}
	}
	return nil, errors.New("the guest that was started is not there")
}

// scenario is a command in which calls fail.
type scenario struct {
	name   string
	broken bool // the upgrade fails and is rolled back
	args   []string
	// For a recovery, the event and the step after whose last record the upgrade was killed.
	event journal.Event
	step  journal.StepKind
}

var upgrade = []string{"upgrade", "--force"} // tiny guests run on no QEMU whose version could be asked

var scenarios = []scenario{
	{name: "upgrade", args: upgrade},
	{name: "rollback", args: upgrade, broken: true},
	{name: "recovery that rolls back", args: []string{"recover"}, event: journal.Done, step: journal.CutOver},
	{name: "recovery after the commit", args: []string{"recover"}, event: journal.Commit},
}

// prepare brings the node to where the scenario's command begins. It returns what arms a
// trigger.
func (v *victim) prepare(s scenario) (armed func() bool, err error) {
	v.configure(v.other(), s.broken)
	if s.broken { // what comes before the failure is in the upgrade
		before := len(v.journals())
		return func() bool {
			all := v.journals()
			if len(all) <= before {
				return false
			}
			text, _ := os.ReadFile(all[len(all)-1])
			return bytes.Contains(text, []byte(`"event":"failed"`))
		}, nil
	}
	if s.event == "" {
		return nil, nil
	}
	at, err := v.recordOf(s)
	if err != nil {
		return nil, err
	}
	faulty := *v.Node
	faulty.Program = nodetest.Program(v.T, "kollet-faults")
	faulty.Env = append(slices.Clone(faulty.Env), fmt.Sprintf("KOLLET_KILL_AT_RECORD=%d", at))
	if o := faulty.Kollet(upgrade...); o.Code != -1 { // killed
		return nil, fmt.Errorf("the upgrade to recover from was not killed: exit status %d\n%s", o.Code, o.All())
	}
	return nil, nil
}

// recordOf returns the number of the record after which the upgrade is killed, taken from
// the upgrade before, which had the same steps.
func (v *victim) recordOf(s scenario) (int, error) {
	all := v.journals()
	for _, path := range slices.Backward(all) {
		var number int
		_, _ = fmt.Sscanf(filepath.Base(path), "%d", &number)
		records, err := journal.Read(filepath.Dir(path), number)
		if err != nil {
			return 0, err
		}
		if len(records) == 0 || records[len(records)-1].Outcome != journal.Committed || records[0].From == 0 {
			continue
		}
		records = slices.DeleteFunc(records, func(r journal.Record) bool { return r.Event == journal.Warning })
		for i, r := range slices.Backward(records) {
			if r.Event == s.event && r.Step.Kind == s.step {
				return i + 2, nil // with the warning that nothing is known about the guest's QEMU
			}
		}
	}
	return 0, fmt.Errorf("no upgrade's journal has a record of %s %s", s.event, s.step)
}

func (v *victim) journals() []string {
	all, _ := filepath.Glob(v.Path(node.StateDir + "/journal/*.jsonl"))
	return all
}

// end kills the guest, and waits until it is gone.
func end(guest *os.Process) error {
	if err := guest.Kill(); err != nil {
		return fmt.Errorf("the guest is lost: %w", err)
	}
	for range 500 {
		if guest.Signal(syscall.Signal(0)) != nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("the guest cannot be ended")
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
