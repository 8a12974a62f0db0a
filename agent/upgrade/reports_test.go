package upgrade

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/openstack"
)

// records is a control plane that shows these records one after the other; the last
// one stays.
type records struct {
	control
	mu     sync.Mutex
	nova   []openstack.ComputeService
	agents []openstack.Agent
	silent []bool
	asked  int
}

func (r *records) next(all int) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.asked
	r.asked++
	if len(r.silent) > 0 && r.silent[min(at, len(r.silent)-1)] {
		return 0, errors.New("503")
	}
	if all == 0 {
		return 0, openstack.ErrUnknownHost
	}
	return min(at, all-1), nil
}

func (r *records) ComputeService(context.Context, string) (openstack.ComputeService, error) {
	at, err := r.next(len(r.nova))
	if err != nil {
		return openstack.ComputeService{}, err
	}
	return r.nova[at], nil
}

func (*records) Placement(context.Context) error { return nil }

func (r *records) Agent(context.Context, string) (openstack.Agent, error) {
	at, err := r.next(len(r.agents))
	if err != nil {
		return openstack.Agent{}, err
	}
	return r.agents[at], nil
}

// The first record is that before the cutover, the second that just after it.
func TestReports(t *testing.T) {
	nova := func(state, updated string) openstack.ComputeService {
		return openstack.ComputeService{State: state, UpdatedAt: updated}
	}
	agent := func(alive bool, started, heartbeat string) openstack.Agent {
		return openstack.Agent{Alive: alive, StartedAt: started, HeartbeatTimestamp: heartbeat}
	}
	for name, c := range map[string]struct {
		nova       []openstack.ComputeService
		agents     []openstack.Agent
		silent     []bool
		want       string // part of the error; empty: none
		unanswered bool
	}{
		"a report":                 {nova: []openstack.ComputeService{nova("up", "10"), nova("up", "20"), nova("up", "20"), nova("up", "30")}},
		"the old task's last":      {nova: []openstack.ComputeService{nova("up", "10"), nova("up", "20")}, want: "Nova has had no report of it in the 300ms after its cutover"},
		"down":                     {nova: []openstack.ComputeService{nova("down", "10"), nova("down", "10")}, want: "Nova calls it down 300ms after its cutover"},
		"reports, but down":        {nova: []openstack.ComputeService{nova("up", "10"), nova("up", "10"), nova("down", "20")}, want: "Nova calls it down"},
		"up in the end":            {nova: []openstack.ComputeService{nova("down", "10"), nova("down", "10"), nova("down", "20"), nova("up", "30")}},
		"forced down":              {nova: []openstack.ComputeService{{State: "down", ForcedDown: true, UpdatedAt: "1"}, {State: "down", ForcedDown: true, UpdatedAt: "1"}, {State: "down", ForcedDown: true, UpdatedAt: "2"}}},
		"not listed":               {want: "Nova does not list it 300ms after its cutover"},
		"no answer":                {silent: []bool{true}, want: "503", unanswered: true},
		"no answer at the cutover": {nova: []openstack.ComputeService{nova("up", "10"), nova("up", "10"), nova("up", "20"), nova("up", "30")}, silent: []bool{true, true, false}},
		"no answer in between":     {nova: []openstack.ComputeService{nova("up", "10"), nova("up", "10"), nova("up", "10"), nova("up", "20")}, silent: []bool{false, false, true, false}},
		"an agent":                 {agents: []openstack.Agent{agent(true, "1", "10"), agent(true, "1", "20"), agent(true, "2", "30")}},
		"an agent that was fast":   {agents: []openstack.Agent{agent(true, "1", "10"), agent(true, "2", "20"), agent(true, "2", "20")}},
		"an agent's old report":    {agents: []openstack.Agent{agent(true, "1", "10"), agent(true, "1", "20"), agent(true, "1", "20")}, want: "Neutron has had no report of it"},
		"without a start":          {agents: []openstack.Agent{agent(true, "", "10"), agent(true, "", "10"), agent(true, "", "20")}},
		"a dead agent":             {agents: []openstack.Agent{agent(false, "1", "10"), agent(false, "1", "10")}, want: "Neutron calls it down"},
	} {
		t.Run(name, func(t *testing.T) {
			plane := &records{nova: c.nova, agents: c.agents, silent: c.silent}
			service := generation.Service{Name: "a", Origin: 2, ListedAs: &nodefile.ListedAs{Nova: "nova-compute"}}
			if c.agents != nil {
				service.ListedAs = &nodefile.ListedAs{Neutron: "agent"}
			}
			tx := &transaction{cloud: plane, to: generation.Generation{Number: 2, Services: []generation.Service{service}}}
			tx.reports = newReports(plane)
			tx.reports.limit, tx.reports.interval = 300*time.Millisecond, time.Millisecond
			cut := false
			if err := tx.reported(t.Context(), group{{name: "a"}}, func(context.Context, group) error { cut = true; return nil }); err != nil || !cut || !tx.reports.follows("a") {
				t.Fatalf("%v, %v", err, cut)
			}
			err := tx.reports.wait(t.Context(), service)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, is := errors.AsType[unanswered](err); is != c.unanswered {
				t.Errorf("unanswered: %v", is)
			}
		})
	}
}

// Each service of which the control plane said nothing is named.
func TestSilentReports(t *testing.T) {
	tx, said := computeNode(t, answering{}, &records{silent: []bool{true}}, nodefile.Quiesce{})
	tx.to.Services = append(tx.to.Services, generation.Service{Name: "agent", Origin: 2, ListedAs: &nodefile.ListedAs{Neutron: "agent"}})
	tx.reports = newReports(tx.cloud)
	tx.reports.limit, tx.reports.interval = 20*time.Millisecond, time.Millisecond
	tx.reports.cut = []string{"nova-compute", "agent"}
	g, ctx := errgroup.WithContext(t.Context())
	unanswered := tx.awaitReports(ctx, g)
	if err := errors.Join(g.Wait(), unanswered()); err != nil {
		t.Fatal(err)
	}
	records, err := journal.Read(tx.node.Journals(), 2)
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, r := range records {
		if name, _, warned := strings.Cut(r.Note, ": whether it reports is not known, only its probes pass: "); warned {
			notes = append(notes, name)
		}
	}
	slices.Sort(notes)
	if !slices.Equal(notes, []string{"agent", "nova-compute"}) || len(*said) != 2 {
		t.Errorf("recorded %q, said %q", notes, *said)
	}
}

// A service that keeps its container is followed if it depends on one that was
// replaced.
func TestListedWith(t *testing.T) {
	nova := &nodefile.ListedAs{Nova: "nova-compute"}
	tx := &transaction{to: generation.Generation{Number: 2, Services: []generation.Service{
		{Name: "libvirt", Origin: 2}, {Name: "compute", Origin: 1, DependsOn: []string{"libvirt"}, ListedAs: nova},
		{Name: "other", Origin: 1, ListedAs: nova}, {Name: "late", Origin: 2, DependsOn: []string{"libvirt"}, ListedAs: nova},
	}}}
	for want, g := range map[string]group{"compute": {{name: "libvirt"}}, "late": {{name: "late"}}, "": {{name: "compute2"}}} {
		var names []string
		for _, s := range tx.listedWith(g) {
			names = append(names, s.Name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%v: got %v", g.names(), names)
		}
	}
}
