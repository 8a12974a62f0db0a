package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kollet/kollet/agent/doctor"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/openstack"
	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/agent/quiesce"
	"github.com/kollet/kollet/agent/target"
)

// cloud is the control plane. *openstack.Cloud implements it.
type cloud interface {
	quiesce.Service
	Operations(ctx context.Context) ([]openstack.Operation, error)
	Agent(ctx context.Context, binary string) (openstack.Agent, error)
	Placement(ctx context.Context) error
}

// openCloud logs in to the control plane, if the node file has credentials: wrong
// ones are found before anything is pulled.
func (t *transaction) openCloud(ctx context.Context) error {
	c := t.target.Cloud
	if c.Problem != nil {
		return t.warn("", "Nova and Neutron are not asked: %w", c.Problem)
	}
	if c.Access == nil || !slices.ContainsFunc(t.target.Services, listed) {
		return nil
	}
	opened, err := openstack.Open(ctx, *c.Access, t.node.Name)
	switch {
	case err == nil:
		t.cloud = opened
		return t.askPlacement(ctx, slices.DeleteFunc(slices.Clone(t.target.Services), func(s generation.Service) bool { return !t.planned(s.Name) }))
	case t.first(): // at a first boot the control plane may be slower than the node
		return t.warn("", "Nova and Neutron are not asked: %w", err)
	}
	return t.refuse(fmt.Errorf("check openstack: %w", err))
}

// askPlacement refuses to replace nova-compute while Placement does not answer: neither the
// new one nor the old one would start. The profile's probes only know a Placement whose
// address is in the node file.
func (t *transaction) askPlacement(ctx context.Context, replaced []generation.Service) error {
	nova := slices.ContainsFunc(replaced, func(s generation.Service) bool { return listed(s) && s.ListedAs.Nova != "" })
	if t.cloud == nil || t.first() || !nova {
		return nil
	}
	if err := t.cloud.Placement(ctx); err != nil {
		return t.refuse(fmt.Errorf("check openstack: %w", err))
	}
	return nil
}

// listed reports whether the control plane lists a service.
func listed(s generation.Service) bool { return s.ListedAs != nil }

// interruptsOperations reports whether the group's cutover would interrupt what
// Nova or libvirt is doing.
func (g group) interruptsOperations() bool {
	return slices.ContainsFunc(g, func(m member) bool {
		return m.old.Guests != nil || m.hosts || m.old.ListedAs != nil && m.old.ListedAs.Nova != ""
	})
}

// quiesce keeps Nova from placing servers on this node, and waits until no
// operation is under way.
func (t *transaction) quiesce(ctx context.Context) error {
	asked := t.node.Host.Now()
	disabled, err := t.disableService(ctx)
	if err != nil {
		if err := t.refuse(fmt.Errorf("quiesce: %w", err)); err != nil {
			return err
		}
	}
	t.fitGrace(ctx)
	settings := t.target.Cloud.Quiesce
	if disabled && settings.Wait > 0 && !t.options.Force {
		if err := quiesce.Pause(ctx, settle-t.node.Host.Now().Sub(asked)); err != nil {
			return err
		}
	}
	err = t.waiting().Wait(ctx, t.operations)
	if err == nil || ctx.Err() != nil {
		return err
	}
	_, busy := errors.AsType[*quiesce.Busy](err)
	if busy && settings.OnBusy == nodefile.Defer && !t.options.Force {
		return node.Deferred{Err: fmt.Errorf("deferred: %w; run the upgrade again later", err)}
	}
	if busy {
		return t.refuse(fmt.Errorf("quiesce: %w; let it finish, and run the upgrade again", err))
	}
	return t.refuse(fmt.Errorf("quiesce: it is not known whether operations are under way: %w", err))
}

// waiting is how to wait for operations.
func (t *transaction) waiting() quiesce.Waiting {
	w := quiesce.Waiting{
		Limit: t.target.Cloud.Quiesce.Wait, Now: t.node.Host.Now, Pause: quiesce.Pause,
		Note: func(text string) { t.node.Note("", "%s", text) },
	}
	if t.options.Force {
		w.Limit = 0
	}
	return w
}

// settle is how long a server that the scheduler placed here before the compute
// service was disabled may take until Nova lists it as this host's: it does when
// nova-compute has received the request.
const settle = 5 * time.Second

// disableService disables the compute service, if the node file asks for it, and
// reports whether it did. A service that another user disabled stays as it is.
func (t *transaction) disableService(ctx context.Context) (bool, error) {
	binary := t.novaBinary()
	if t.cloud == nil || binary == "" {
		return false, nil
	}
	if !*t.target.Cloud.Quiesce.Disable {
		if _, err := t.cloud.ComputeService(ctx, binary); errors.Is(err, openstack.ErrUnknownHost) {
			return false, t.unlisted(ctx, binary)
		}
		return false, nil
	}
	found, err := t.marks().Disable(ctx, t.cloud, quiesce.Mark{
		Host: t.node.Name, Binary: binary, Reason: fmt.Sprintf("kollet: upgrade to generation %d", t.to.Number), Since: t.node.Host.Now().UTC(),
	})
	if errors.Is(err, openstack.ErrUnknownHost) {
		return false, t.unlisted(ctx, binary)
	}
	if err == nil && !found.Enabled() {
		t.node.Note("", "the compute service was disabled before (%q) and stays so", found.DisabledReason)
	}
	return err == nil && found.Enabled(), err
}

// unlisted returns an error if a compute service that Nova does not list is healthy:
// then the node has another name there, and none of its operations would be found. One
// that is not healthy may never have got that far.
func (t *transaction) unlisted(ctx context.Context, binary string) error {
	for _, s := range t.from.Services {
		if listed(s) && s.ListedAs.Nova != "" && len(doctor.Unhealthy(ctx, t.node, []generation.Service{s})) == 0 {
			return fmt.Errorf("host %s has no %s in Nova, so what it is doing is not known; compare `openstack compute service list` with `kollet --host`", t.node.Name, binary)
		}
	}
	t.node.Note("", "Nova does not list %s on host %s, so it is not disabled", binary, t.node.Name)
	return nil
}

// novaBinary is how Nova lists this node's compute service; empty if it has none.
func (t *transaction) novaBinary() string {
	for _, s := range slices.Concat(t.to.Services, t.from.Services) {
		if listed(s) && s.ListedAs.Nova != "" {
			return s.ListedAs.Nova
		}
	}
	return ""
}

func (t *transaction) marks() quiesce.Store { return marks(t.node) }

func marks(n *node.Node) quiesce.Store { return quiesce.Store{Dir: n.State(), Version: n.Version} }

// operations lists what Nova and libvirt are doing. A migration that both know of
// is listed once.
func (t *transaction) operations(ctx context.Context) ([]quiesce.Operation, error) {
	var all []quiesce.Operation
	var known []string // UUIDs
	if t.cloud != nil && t.novaBinary() != "" {
		found, err := t.cloud.Operations(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			known = append(known, o.Server)
			all = append(all, quiesce.Operation{Subject: fmt.Sprintf("server %q (%s)", o.Name, o.Server), Task: "is " + printable.Line(o.Task) + t.lasting(o.Since)})
		}
	}
	for _, m := range t.libvirts() {
		jobs, err := t.guestJobs(ctx, m)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			if !slices.Contains(known, j.uuid) {
				all = append(all, j.operation())
			}
		}
	}
	return all, nil
}

// unquiesce enables the compute service again, if kollet disabled it. That must not
// fail an upgrade or a recovery: if the control plane does not answer now, the next
// command tries again.
func (t *transaction) unquiesce(ctx context.Context) error {
	if err := enableService(ctx, t.node, t.cloud, t.target.Redact); err != nil {
		_ = t.warn("", "%w", err) // shown; only its record may be missing
	}
	return nil
}

// enableTimeout bounds how long a command waits for a control plane that does not
// answer, to enable the compute service.
const enableTimeout = 30 * time.Second

// enableService enables the compute service again, if kollet disabled it. c is nil
// if no connection to the control plane is open.
func enableService(ctx context.Context, n *node.Node, c cloud, redact func(error) error) error {
	m, err := marks(n).Marked()
	if m == nil && err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, enableTimeout)
	defer cancel()
	if err == nil && (c == nil || m.Host != n.Name) {
		c, err = openFor(ctx, n, m.Host)
	}
	if err == nil {
		err = marks(n).Enable(ctx, c)
	}
	if err != nil && m != nil {
		err = fmt.Errorf("%w; the next kollet command tries again, or run `openstack compute service set --enable %s %s` and remove %s", err, m.Host, m.Binary, marks(n).Path())
	}
	if err != nil {
		return redact(fmt.Errorf("kollet disabled the compute service and could not enable it again: %w", err))
	}
	n.Note("", "the compute service is enabled again")
	return nil
}

// awaitEnabled tries again for a while to enable the compute service. The first try has
// warned if it failed.
func awaitEnabled(ctx context.Context, n *node.Node, wait time.Duration) {
	if m, err := marks(n).Marked(); m == nil || err != nil || wait <= 0 || target.CloudOf(n).Access == nil {
		return
	}
	redact := target.RedactorOf(n).Error
	err := n.Await(ctx, wait, "Nova", func(ctx context.Context) error {
		return enableService(ctx, n, nil, redact)
	}, func(error) bool { return true })
	if err != nil {
		n.Note("", "warning: %v", err)
	}
}

// openFor opens the control plane, for a host, with the credentials that the node file
// has now.
func openFor(ctx context.Context, n *node.Node, host string) (cloud, error) {
	c := target.CloudOf(n)
	if c.Problem != nil {
		return nil, c.Problem
	}
	if c.Access == nil {
		return nil, errors.New("the node file has no credentials below openstack")
	}
	return openstack.Open(ctx, *c.Access, host)
}

// lasting says since when something is under way, as far as the control plane's
// clock tells.
func (t *transaction) lasting(since time.Time) string {
	d := t.node.Host.Now().Sub(since).Round(time.Second)
	if since.IsZero() || d < time.Second {
		return ""
	}
	return fmt.Sprintf(", for %v", d)
}
