package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/openstack"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

// control is a control plane with one host.
type control struct {
	service    openstack.ComputeService
	operations []openstack.Operation
	arriving   func() []openstack.Operation // more of them
	err        error                        // of every request
	unlisted   bool                         // the compute service
	changes    []string
}

func (c *control) ComputeService(context.Context, string) (openstack.ComputeService, error) {
	if c.unlisted {
		return openstack.ComputeService{}, fmt.Errorf("x: %w", openstack.ErrUnknownHost)
	}
	return c.service, c.err
}

func (c *control) Disable(_ context.Context, _, reason string) error {
	c.changes = append(c.changes, "disable: "+reason)
	c.service.Status, c.service.DisabledReason = "disabled", reason
	return c.err
}

func (c *control) Enable(context.Context, string) error {
	c.changes = append(c.changes, "enable")
	c.service.Status = "enabled"
	return c.err
}

func (c *control) Operations(context.Context) ([]openstack.Operation, error) {
	if c.arriving != nil {
		return append(c.arriving(), c.operations...), c.err
	}
	return c.operations, c.err
}

func (c *control) Placement(context.Context) error { return c.err }

func (c *control) Agent(context.Context, string) (openstack.Agent, error) {
	return openstack.Agent{}, c.err
}

// answering is an engine whose containers answer these commands.
type answering struct {
	containers.Engine
	answers map[string]string // output by command; absent: exit status 1
	stopped bool
}

// beside separates a command's output from what it prints to standard error.
const beside = "\x00"

func (a answering) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	state := containers.StateRunning
	if a.stopped {
		state = containers.StateExited
	}
	return []containers.Container{{ID: labels[node.LabelService], State: state, Spec: containers.Spec{Labels: map[string]string{node.LabelGeneration: "1"}}}}, nil
}

func (a answering) Inspect(context.Context, string) (containers.Container, error) {
	return containers.Container{}, containers.ErrNotFound
}

func (a answering) Exec(_ context.Context, id string, e containers.Exec) (int, error) {
	out, known := a.answers[id+": "+strings.Join(e.Argv, " ")]
	if !known {
		_, _ = io.WriteString(e.Stderr, "error: failed\nto connect\x1b[31m")
		return 1, nil
	}
	out, problems, _ := strings.Cut(out, beside)
	_, _ = io.WriteString(e.Stdout, out)
	_, _ = io.WriteString(e.Stderr, problems) // after the output, as containerd's engine does
	return 0, nil
}

// computeNode is a transaction that replaces libvirt and nova-compute.
func computeNode(t *testing.T, engine containers.Engine, cloud cloud, q nodefile.Quiesce) (*transaction, *[]string) {
	t.Helper()
	var said []string
	machine := t.TempDir()
	if err := os.MkdirAll(filepath.Join(machine, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	n := &node.Node{
		Root: t.TempDir(), Name: "compute-1", Engine: engine, Report: func(e node.Event) { said = append(said, e.Text) },
		Host: host.Host{Root: machine, Proc: filepath.Join(machine, "proc"), Sys: machine, Run: machine, Now: time.Now},
	}
	services := func(origin int) []generation.Service {
		return []generation.Service{
			{Name: "nova-libvirt", Origin: origin, Guests: &nodefile.Guests{Jobs: []string{"jobs"}}},
			{Name: "nova-compute", Origin: origin, ListedAs: &nodefile.ListedAs{Nova: "nova-compute"}, Version: []string{"version"}, StopGracePeriod: time.Minute},
		}
	}
	j, err := journal.Create(n.Journals(), journal.Record{To: 2}, n.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	tx := newTransaction(n, j, generation.Generation{Number: 1, Services: services(1)})
	tx.to = generation.Generation{Number: 2, Services: services(2)}
	disable := q.Disable != nil && *q.Disable
	q.Disable = &disable
	tx.target = &target.Target{Cloud: target.Cloud{Quiesce: q}}
	tx.cloud = cloud
	return tx, &said
}

// Without Placement neither the new nova-compute nor the old one would start.
func TestPlacement(t *testing.T) {
	down := &control{err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		cloud    cloud
		from     int
		nothing  bool // ran before
		replaced string
		force    bool
		refused  bool
	}{
		"answers":        {cloud: &control{}, from: 1, replaced: "nova-compute"},
		"is down":        {cloud: down, from: 1, replaced: "nova-compute", refused: true},
		"not needed":     {cloud: down, from: 1, replaced: "nova-libvirt"},
		"first boot":     {cloud: down, nothing: true, replaced: "nova-compute"},
		"adoption":       {cloud: down, replaced: "nova-compute", refused: true},
		"forced":         {cloud: down, from: 1, replaced: "nova-compute", force: true},
		"no credentials": {from: 1, replaced: "nova-compute"},
	} {
		t.Run(name, func(t *testing.T) {
			tx, _ := computeNode(t, answering{}, c.cloud, nodefile.Quiesce{})
			tx.from.Number, tx.options.Force = c.from, c.force
			if c.nothing {
				tx.from.Services = nil
			}
			replaced := slices.DeleteFunc(slices.Clone(tx.to.Services), func(s generation.Service) bool { return s.Name != c.replaced })
			if err := tx.askPlacement(t.Context(), replaced); (err != nil) != c.refused {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestQuiesce(t *testing.T) {
	yes := true
	idle := map[string]string{"nova-libvirt: jobs": "", "nova-compute: version": "26.2.2\n"}
	copying := map[string]string{"nova-libvirt: jobs": "u1 Block Copy\n\nu2 Outgoing\x1b[2J migration\n", "nova-compute: version": "26.2.2\n"}
	spawning := []openstack.Operation{{Server: "u2", Name: "web\x1b", Task: "spawning"}}
	for name, c := range map[string]struct {
		engine   answering
		cloud    *control
		quiesce  nodefile.Quiesce
		force    bool
		want     string // error; empty: none
		deferred bool
		said     string // part of it
		changes  string
	}{
		"idle, without credentials": {engine: answering{answers: idle}, quiesce: nodefile.Quiesce{OnBusy: "refuse"}},
		"idle": {engine: answering{answers: idle}, cloud: &control{service: openstack.ComputeService{ID: "1", Status: "enabled"}}, quiesce: nodefile.Quiesce{Disable: &yes},
			changes: "disable: kollet: upgrade to generation 2"},
		"not to be disabled": {engine: answering{answers: idle}, cloud: &control{service: openstack.ComputeService{ID: "1", Status: "enabled"}}},
		"disabled before": {engine: answering{answers: idle}, cloud: &control{service: openstack.ComputeService{ID: "1", Status: "disabled", DisabledReason: "disk"}}, quiesce: nodefile.Quiesce{Disable: &yes},
			said: `the compute service was disabled before ("disk") and stays so`},
		"jobs of libvirt": {engine: answering{answers: copying}, quiesce: nodefile.Quiesce{OnBusy: "refuse"},
			want: "quiesce: 2 operations: guest of libvirt (u1) has a job: Block Copy; guest of libvirt (u2) has a job: Outgoing�[2J migration; let it finish, and run the upgrade again; `kollet upgrade --force` continues regardless"},
		"both know of one": {engine: answering{answers: copying}, cloud: &control{operations: spawning}, quiesce: nodefile.Quiesce{OnBusy: "refuse"},
			want: "quiesce: 2 operations: server \"web\\x1b\" (u2) is spawning; guest of libvirt (u1) has a job: Block Copy; let it finish, and run the upgrade again; `kollet upgrade --force` continues regardless"},
		"deferred": {engine: answering{answers: idle}, cloud: &control{operations: spawning}, quiesce: nodefile.Quiesce{OnBusy: "defer"}, deferred: true,
			want: "deferred: 1 operation: server \"web\\x1b\" (u2) is spawning; run the upgrade again later"},
		"forced": {engine: answering{answers: idle}, cloud: &control{operations: spawning}, quiesce: nodefile.Quiesce{OnBusy: "defer", Wait: time.Hour}, force: true,
			said: "warning: continuing with --force: quiesce: 1 operation: server \"web\\x1b\" (u2) is spawning; let it finish, and run the upgrade again"},
		"no answer": {engine: answering{answers: idle}, cloud: &control{err: errors.New("503")}, quiesce: nodefile.Quiesce{OnBusy: "defer"},
			want: "quiesce: it is not known whether operations are under way: 503; `kollet upgrade --force` continues regardless"},
		"cannot be disabled": {engine: answering{answers: idle}, cloud: &control{err: errors.New("403")}, quiesce: nodefile.Quiesce{Disable: &yes},
			want: "quiesce: 403; `kollet upgrade --force` continues regardless"},
		"libvirt does not answer": {engine: answering{}, quiesce: nodefile.Quiesce{OnBusy: "defer"},
			want: "quiesce: it is not known whether operations are under way: ask nova-libvirt for the jobs of its guests: exit status 1: error: failed to connect; `kollet upgrade --force` continues regardless",
			said: "has 1m0s to stop: its own time is not known: "},
		"libvirt does not run": {engine: answering{stopped: true}, quiesce: nodefile.Quiesce{OnBusy: "refuse"}},
		"not known to Nova": {engine: answering{answers: idle}, cloud: &control{unlisted: true}, quiesce: nodefile.Quiesce{Disable: &yes},
			want: "quiesce: host compute-1 has no nova-compute in Nova, so what it is doing is not known; compare `openstack compute service list` with `kollet --host`; `kollet upgrade --force` continues regardless"},
		"not known to Nova, and not to be disabled": {engine: answering{answers: idle}, cloud: &control{unlisted: true},
			want: "quiesce: host compute-1 has no nova-compute in Nova, so what it is doing is not known; compare `openstack compute service list` with `kollet --host`; `kollet upgrade --force` continues regardless"},
		"not known to Nova, forced": {engine: answering{answers: idle}, cloud: &control{unlisted: true}, quiesce: nodefile.Quiesce{Disable: &yes}, force: true,
			said: "warning: continuing with --force: quiesce: host compute-1 has no nova-compute"},
		"not known to Nova, and not running": {engine: answering{stopped: true}, cloud: &control{unlisted: true}, quiesce: nodefile.Quiesce{Disable: &yes},
			said: "Nova does not list nova-compute on host compute-1, so it is not disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			var connected cloud
			if c.cloud != nil {
				connected = c.cloud
			}
			tx, said := computeNode(t, c.engine, connected, c.quiesce)
			tx.options.Force = c.force
			err := tx.quiesce(t.Context())
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if _, deferred := errors.AsType[node.Deferred](err); deferred != c.deferred {
				t.Errorf("deferred: %v", deferred)
			}
			if !strings.Contains(strings.Join(*said, "\n"), c.said) {
				t.Errorf("said %q", *said)
			}
			if c.cloud != nil && strings.Join(c.cloud.changes, ", ") != c.changes {
				t.Errorf("changes %q", c.cloud.changes)
			}
		})
	}
}

// A server that was placed here just before the compute service was disabled becomes
// an operation of this host only when nova-compute receives it.
func TestQuiesceSettles(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		quiesce nodefile.Quiesce
		force   bool
		want    time.Duration
	}{
		"disabled":     {nodefile.Quiesce{Disable: &yes, Wait: time.Minute}, false, settle + 8*time.Second},
		"not disabled": {nodefile.Quiesce{Wait: time.Minute}, false, 0},
		"not to wait":  {nodefile.Quiesce{Disable: &yes}, false, 0},
		"forced":       {nodefile.Quiesce{Disable: &yes, Wait: time.Minute}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nova := &control{service: openstack.ComputeService{ID: "1", Status: "enabled"}}
				tx, _ := computeNode(t, answering{answers: map[string]string{"nova-libvirt: jobs": "", "nova-compute: version": "26.2.2"}}, nova, c.quiesce)
				tx.options.Force = c.force
				begun := time.Now()
				nova.arriving = func() []openstack.Operation {
					if now := time.Since(begun); now < settle-time.Second || now > settle+7*time.Second {
						return nil
					}
					return []openstack.Operation{{Server: "u1", Name: "web", Task: "spawning"}}
				}
				if err := tx.quiesce(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took != c.want {
					t.Errorf("took %v, want %v", took, c.want)
				}
			})
		})
	}
}

// The compute service is enabled again by tidy, by a rollback or by a recovery, and
// a control plane that is silent then fails none of them.
func TestUnquiesce(t *testing.T) {
	yes := true
	c := &control{service: openstack.ComputeService{ID: "1", Status: "enabled"}}
	tx, said := computeNode(t, answering{answers: map[string]string{"nova-libvirt: jobs": "", "nova-compute: version": "26.2.2"}}, c, nodefile.Quiesce{Disable: &yes})
	if err := tx.quiesce(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.err = errors.New("503")
	if err := tx.unquiesce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(*said, "\n"); !strings.Contains(text, "could not enable it again: 503; the next kollet command tries again, or run `openstack compute service set --enable compute-1 nova-compute`") {
		t.Errorf("said %q", text)
	}
	// A later command has no connection yet, and the node file no longer credentials.
	if err := enableService(t.Context(), tx.node, nil, tx.target.Redact); err == nil || !strings.Contains(err.Error(), "no node file") {
		t.Errorf("got %v", err)
	}
	c.err = nil
	if err := tx.unquiesce(t.Context()); err != nil || c.service.Status != "enabled" {
		t.Errorf("%v, %+v", err, c.service)
	}
	changes := len(c.changes)
	if err := tx.unquiesce(t.Context()); err != nil || len(c.changes) != changes {
		t.Errorf("again: %v, %q", err, c.changes)
	}
}

func TestFitGrace(t *testing.T) {
	for name, c := range map[string]struct {
		version string // what it prints
		config  string // rendered nova.conf
		own     bool   // stop_grace_period is set in the node file
		want    time.Duration
	}{
		"Zed":                  {"26.2.2\n", "", false, 75 * time.Second},
		"after a warning":      {"DeprecationWarning: old\n32.1.0\n", "", false, 75 * time.Second},
		"beside a warning":     {"33.0.0\n" + beside + "DeprecationWarning: old\n", "", false, 195 * time.Second},
		"on standard error":    {beside + "33.0.0\n", "", false, 195 * time.Second},
		"2026.1":               {"33.0.0\n", "", false, 195 * time.Second},
		"set in the node file": {"33.0.0\n", "", true, 0},
		"set in nova.conf":     {"33.0.0\n", "[DEFAULT]\ngraceful_shutdown_timeout = 300\n", false, 315 * time.Second},
		"shorter in nova.conf": {"33.0.0\n", "[DEFAULT]\ngraceful_shutdown_timeout = 10\n", false, time.Minute},
		"without an end":       {"33.0.0\n", "[DEFAULT]\ngraceful_shutdown_timeout = 0\n", false, time.Hour + 15*time.Second},
		"not known":            {"Traceback\n", "[DEFAULT]\ndebug = true\n", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tx, _ := computeNode(t, answering{answers: map[string]string{"nova-compute: version": c.version}}, nil, nodefile.Quiesce{})
			old, next := &tx.from.Services[1], &tx.to.Services[1]
			if c.own {
				next.Version = nil
			}
			if c.config != "" {
				old.Files = []generation.File{{Name: "00-logo"}, {Name: "01-nova.conf"}}
				dir := tx.node.Store().Config(1, "nova-compute")
				err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "01-nova.conf"), []byte(c.config), 0o600), os.WriteFile(filepath.Join(dir, "00-logo"), []byte("\x89PNG"), 0o600))
				if err != nil {
					t.Fatal(err)
				}
			}
			tx.fitGrace(t.Context())
			if got := tx.grace["nova-compute"]; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Steps quiesce only where Nova or libvirt is interrupted.
func TestWhenToQuiesce(t *testing.T) {
	kinds := func(tx *transaction) (k []journal.StepKind) {
		for _, s := range tx.cutoverSteps() {
			k = append(k, s.kind)
		}
		return k
	}
	for name, c := range map[string]struct {
		replaced []string
		first    bool // there is no earlier generation
		want     bool
	}{
		"both":           {[]string{"nova-libvirt", "nova-compute", "agent"}, false, true},
		"libvirt":        {[]string{"nova-libvirt"}, false, true},
		"nova-compute":   {[]string{"nova-compute"}, false, true},
		"agent":          {[]string{"agent"}, false, false},
		"the first time": {[]string{"nova-libvirt", "nova-compute", "agent"}, true, false},
	} {
		tx, _ := computeNode(t, nil, nil, nodefile.Quiesce{})
		agent := generation.Service{Name: "agent", Origin: 1, ListedAs: &nodefile.ListedAs{Neutron: "agent"}}
		tx.from.Services, tx.to.Services = append(tx.from.Services, agent), append(tx.to.Services, agent)
		for i := range tx.to.Services {
			tx.to.Services[i].Origin = 1
			if slices.Contains(c.replaced, tx.to.Services[i].Name) {
				tx.to.Services[i].Origin = 2
			}
		}
		if c.first {
			tx.from = generation.Generation{}
		}
		if got := kinds(tx); slices.Contains(got, journal.Quiesce) != c.want || c.want && got[0] != journal.Quiesce {
			t.Errorf("%s: %v", name, got)
		}
	}
}
