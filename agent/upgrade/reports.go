package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/openstack"
	"github.com/kollet/kollet/agent/quiesce"
)

// Nova and Neutron believe that a service is well for a minute after its last
// report, so the word of the old task could pass for that of the new one. What
// counts is a report that came after the cutover. No clocks are compared: what the
// control plane recorded before and just after the cutover has to change.

// reportLimit is how long the first report may take: nova-compute sends its first
// some five seconds after its start, and then each ten (report_interval), agents at
// once and then each 30 s.
const (
	reportLimit    = 2 * time.Minute
	reportInterval = time.Second // between two questions
)

// sighting is how the control plane sees one service.
type sighting struct {
	who     string // Nova or Neutron
	up      bool
	report  string // changes with each report
	started string // changes with the first report after a start, if the control plane records it
}

// reports follows the services that were cut over, and those that depend on them.
type reports struct {
	cloud           cloud
	limit, interval time.Duration
	running         sync.WaitGroup

	cut []string // services that were cut over, or depend on one

	mu     sync.Mutex
	before map[string]sighting // by service, before its cutover
	base   map[string]sighting // by service, just after its cutover
}

func newReports(c cloud) *reports {
	return &reports{cloud: c, limit: reportLimit, interval: reportInterval, before: map[string]sighting{}, base: map[string]sighting{}}
}

// look asks how the control plane sees a service. A service that it does not list
// has not reported yet.
func (r *reports) look(ctx context.Context, s generation.Service) (sighting, error) {
	if s.ListedAs.Nova != "" {
		found, err := r.cloud.ComputeService(ctx, s.ListedAs.Nova)
		if errors.Is(err, openstack.ErrUnknownHost) {
			return sighting{who: "Nova"}, nil
		}
		// A service that was forced down is down whatever it reports.
		return sighting{who: "Nova", up: found.State == "up" || found.ForcedDown, report: found.UpdatedAt}, err
	}
	found, err := r.cloud.Agent(ctx, s.ListedAs.Neutron)
	if errors.Is(err, openstack.ErrUnknownHost) {
		return sighting{who: "Neutron"}, nil
	}
	return sighting{who: "Neutron", up: found.Alive, report: found.HeartbeatTimestamp, started: found.StartedAt}, err
}

// since reports whether now is due to a report that came after the cutover.
func (now sighting) since(before, base sighting, haveBefore bool) bool {
	restarted := haveBefore && now.started != "" && now.started != before.started
	return restarted || now.report != base.report
}

// listedWith are the services of a group that the control plane lists, and those
// that keep their container but depend on one of the group.
func (t *transaction) listedWith(g group) []generation.Service {
	var found []generation.Service
	for _, s := range t.to.Services {
		replaced := slices.Contains(g.names(), s.Name)
		depends := s.Origin != t.to.Number && slices.ContainsFunc(s.DependsOn, func(dep string) bool { return slices.Contains(g.names(), dep) })
		if listed(s) && (replaced || depends) {
			found = append(found, s)
		}
	}
	return found
}

// reported wraps a cutover: it notes how the control plane sees the group's services
// before it and just after it. A control plane that does not answer is asked again
// in verify.
func (t *transaction) reported(ctx context.Context, g group, cutOver func(context.Context, group) error) error {
	if t.cloud == nil {
		return cutOver(ctx, g)
	}
	if t.reports == nil {
		t.reports = newReports(t.cloud)
	}
	services := t.listedWith(g)
	for _, s := range services {
		t.reports.note(ctx, s, t.reports.before)
	}
	if err := cutOver(ctx, g); err != nil {
		return err
	}
	for _, s := range services {
		t.reports.cut = append(t.reports.cut, s.Name)
		t.reports.running.Go(func() { t.reports.note(ctx, s, t.reports.base) })
	}
	return nil
}

func (r *reports) follows(service string) bool { return slices.Contains(r.cut, service) }

// lookTimeout bounds one question beside a cutover.
const lookTimeout = 5 * time.Second

func (r *reports) note(ctx context.Context, s generation.Service, into map[string]sighting) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	seen, err := r.look(ctx, s)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	into[s.Name] = seen
}

// unanswered means that the control plane did not say how it sees a service.
type unanswered struct{ error }

func (e unanswered) Unwrap() error { return e.error }

// wait waits until the control plane has seen a report of a service that came after
// the cutover.
func (r *reports) wait(ctx context.Context, s generation.Service) error {
	r.running.Wait()
	r.mu.Lock()
	before, haveBefore := r.before[s.Name]
	base, haveBase := r.base[s.Name]
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	var now sighting
	var err error
	for {
		seen, failed := r.look(ctx, s)
		if ctx.Err() == nil { // else it is the limit that is over
			now, err = seen, failed
		}
		switch {
		case err != nil:
		case !haveBase:
			base, haveBase = now, true
		case now.up && now.since(before, base, haveBefore):
			return nil
		}
		if quiesce.Pause(ctx, r.interval) == nil {
			continue
		}
		switch {
		case !errors.Is(ctx.Err(), context.DeadlineExceeded):
			return ctx.Err()
		case err != nil || !haveBase:
			return unanswered{err}
		case now.report == "":
			return fmt.Errorf("%s does not list it %v after its cutover", now.who, r.limit)
		case !now.up:
			return fmt.Errorf("%s calls it down %v after its cutover", now.who, r.limit)
		}
		return fmt.Errorf("%s has had no report of it in the %v after its cutover", now.who, r.limit)
	}
}
