package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

// unreachable is an engine that does not run.
type unreachable struct{ containers.Engine }

var errUnreachable = fmt.Errorf("docker at /run/docker.sock: %w; start it", containers.ErrUnreachable)

func (unreachable) Info(context.Context) (containers.Info, error) {
	return containers.Info{}, errUnreachable
}

func (unreachable) List(context.Context, map[string]string) ([]containers.Container, error) {
	return nil, errUnreachable
}

// journalOf writes the journal of an upgrade to a generation from the one before.
func journalOf(t *testing.T, n *node.Node, number int, records ...journal.Record) {
	t.Helper()
	j, err := journal.Create(n.Journals(), journal.Record{From: number - 1, To: number, Reason: "upgrade"}, n.Host.Now)
	for _, r := range records {
		if err == nil {
			err = j.Append(r)
		}
	}
	if err := errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
}

func started(kind journal.StepKind, services ...string) journal.Record {
	return journal.Record{Event: journal.Intent, Step: journal.Step{Kind: kind, Services: services}}
}

func outcome(outcome journal.Outcome) journal.Record {
	return journal.Record{Event: journal.End, Outcome: outcome}
}

// Without the engine nothing can be recovered. Only if services may be stopped does the node need
// an operator: else it is as it was before the upgrade.
func TestRecoverWithoutEngine(t *testing.T) {
	stage, cutOver := started(journal.Stage), started(journal.CutOver, "a")
	for name, c := range map[string]struct {
		records []journal.Record
		failed  bool
		want    string // empty: no operator is needed
	}{
		"nothing is interrupted": {[]journal.Record{outcome(journal.Committed)}, false, ""},
		"before a step":          {nil, true, ""},
		"staged":                 {[]journal.Record{stage}, true, ""},
		"quiesced":               {[]journal.Record{stage, started(journal.Quiesce)}, true, ""},
		"cut over":               {[]journal.Record{stage, cutOver}, true, "the upgrade from generation 1 to 2 was interrupted after it had begun to cut over a"},
		"being rolled back":      {[]journal.Record{cutOver, {Event: journal.Undo, Step: cutOver.Step}}, true, "the upgrade from generation 1 to 2 was interrupted after it had begun to cut over a"},
		"committed":              {[]journal.Record{cutOver, {Event: journal.Commit}}, true, "the upgrade from generation 1 to 2 was interrupted after it had begun to cut over a"},
		"rolled back, unhealthy": {[]journal.Record{cutOver, outcome(journal.Stuck)}, true, "the last upgrade was rolled back to a generation that was not healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: unreachable{}}
			journalOf(t, n, 2, c.records...)
			if err := errors.Join(n.Store().Write(generation.Generation{Number: 1}, nil, func(string) error { return nil }), n.Store().SetCurrent(1)); err != nil {
				t.Fatal(err)
			}
			_, err := Recover(t.Context(), n, 0)
			operator, needed := errors.AsType[node.NeedsOperator](err)
			if (err != nil) != c.failed || needed != (c.want != "") {
				t.Fatalf("got %v", err)
			}
			if needed && !strings.HasSuffix(operator.Error(), "start it; until `kollet recover` succeeds, services may be stopped, because "+c.want) {
				t.Errorf("got %v", err)
			}
			if journal.Ended(c.records) {
				return // an upgrade or a rollback has nothing to recover before it
			}
			_, err = RecoverLocked(t.Context(), n)
			if _, alike := errors.AsType[node.NeedsOperator](err); err == nil || alike != needed {
				t.Errorf("before a command that follows: got %v", err)
			}
		})
	}
}

// So it is without the lock, unless another kollet process has it: that changes the node.
func TestRecoverWithoutLock(t *testing.T) {
	for name, command := range map[string]func(context.Context, *node.Node) error{
		"recover": func(ctx context.Context, n *node.Node) error {
			_, err := Recover(ctx, n, 0)
			return err
		},
		"gc": func(ctx context.Context, n *node.Node) error {
			_, err := GC(ctx, n)
			return err
		},
		"upgrade": func(ctx context.Context, n *node.Node) error {
			_, err := Run(ctx, n, func() (*target.Target, error) { return nil, nil }, Options{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node.Node{Root: t.TempDir(), Host: idle(t)}
			journalOf(t, n, 2, started(journal.CutOver, "a"))
			unlock, err := n.Lock()
			if err != nil {
				t.Fatal(err)
			}
			err = command(t.Context(), n)
			if _, needed := errors.AsType[node.NeedsOperator](err); needed || !errors.Is(err, node.ErrLocked) {
				t.Errorf("locked: got %v", err)
			}
			unlock()
			lock := n.Path(node.StateDir + "/lock")
			if err := errors.Join(os.Remove(lock), os.Mkdir(lock, 0o700)); err != nil {
				t.Fatal(err)
			}
			err = command(t.Context(), n)
			if _, needed := errors.AsType[node.NeedsOperator](err); !needed || !strings.Contains(err.Error(), "is a directory") {
				t.Errorf("without a lock file: got %v", err)
			}
		})
	}
}

// elsewhere is an engine that lists nothing.
type elsewhere struct{ containers.Engine }

func (elsewhere) Info(context.Context) (containers.Info, error) {
	return containers.Info{Name: "docker", Address: "unix:///run/other.sock"}, nil
}

func (elsewhere) List(context.Context, map[string]string) ([]containers.Container, error) {
	return nil, nil
}

func (elsewhere) Inspect(context.Context, string) (containers.Container, error) {
	return containers.Container{}, containers.ErrNotFound
}

// On an engine that does not list what runs nothing is recovered; once nothing runs any longer, as
// if the engine had lost its data, the upgrade is rolled back.
func TestRecoverOnAnotherEngine(t *testing.T) {
	for name, records := range map[string][]journal.Record{
		"staged":    {started(journal.Stage)},
		"cut over":  {started(journal.Stage), started(journal.CutOver, "a")},
		"committed": {started(journal.CutOver, "a"), {Event: journal.Commit}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCutoverNode(t)
				c.node.Engine = elsewhere{}
				c.runsAt(7, "a", 2)
				journalOf(t, c.node, 2, records...)
				record(t, c.node, 2)
				_, before, err := c.node.LastJournal()
				if err != nil {
					t.Fatal(err)
				}
				for _, run := range []func() error{
					func() error { _, err := Recover(t.Context(), c.node, 0); return err },
					func() error { _, err := RecoverLocked(t.Context(), c.node); return err },
				} {
					err := run()
					_, needed := errors.AsType[node.NeedsOperator](err)
					if !needed || !strings.HasPrefix(err.Error(), "nothing was recovered: a runs in container 777777777777 (process 7), which docker does not list: if the engine at unix:///run/other.sock is not that") || !strings.HasSuffix(err.Error(), "; then run `kollet recover`") {
						t.Fatalf("got %v", err)
					}
				}
				_, after, err := c.node.LastJournal()
				if err != nil || len(after) != len(before) {
					t.Errorf("the journal has %d records, had %d, %v", len(after), len(before), err)
				}
				if _, err := os.Stat(c.node.Store().Path(2)); err != nil {
					t.Error(err)
				}
				if err := os.RemoveAll(c.dir + "/proc/7"); err != nil {
					t.Fatal(err)
				}
				_, err = Recover(t.Context(), c.node, 0)
				if err != nil && strings.Contains(err.Error(), "nothing was recovered") {
					t.Errorf("without the process: %v", err)
				}
			})
		})
	}
}

// runsAt has a process run in a container of a service that waits at its gate.
func (c *cutoverNode) runsAt(pid int, service string, number int) {
	c.Helper()
	id := strings.Repeat(strconv.Itoa(pid), 64)
	c.write("proc/2/comm", "containerd-shim\n")
	c.write(fmt.Sprintf("proc/%d/cgroup", pid), "2:pids:/docker/"+id+"\n")
	c.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (a) S 2 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 100 99", pid))
	c.write(fmt.Sprintf("proc/%d/mountinfo", pid), fmt.Sprintf("1 0 8:1 /var/lib/kollet/generations/%06d/%s/gate %s ro - ext4 /dev/sda1 rw\n", number, service, gate.Dir))
}
