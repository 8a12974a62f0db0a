package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/fit"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/containers"
)

// answerTimeout bounds one question to a program.
const answerTimeout = 30 * time.Second

// guestsFit checks that the staged libvirt and QEMU can take over the guests that
// run: that libvirt will adopt them, and that they can be started again and
// migrated. The staged container waits at its gate, where its programs answer
// without a libvirt being started.
func (t *transaction) guestsFit(ctx context.Context) error {
	for _, s := range t.to.Services {
		if s.Origin != t.to.Number || !(member{new: s}).protects() {
			continue // it starts no guests, or they end with their libvirt
		}
		if err := t.guestsFitService(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// guestsFitService may be called again: it checks the guests that were not there
// before.
func (t *transaction) guestsFitService(ctx context.Context, s generation.Service) error {
	guests, err := t.node.Guests()
	if err != nil {
		return err
	}
	guests = slices.DeleteFunc(guests, func(g guest.Guest) bool { return g.Service != s.Name || slices.ContainsFunc(t.fitted, g.Same) })
	if len(guests) == 0 {
		return nil
	}
	staged, err := t.node.Container(ctx, s.Name, t.to.Number)
	if err != nil {
		return err
	}
	q := questions{t: t, service: s, staged: staged, running: t.runningContainer(ctx, s.Name), guests: guests, offers: map[string]answered{}}
	for _, ask := range []func(context.Context) error{q.libvirt, q.qemu} {
		if err := ask(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err // the programs did not fail, they were interrupted
		}
	}
	if found := q.findings.String(); found != "" {
		if err := t.refuse(fmt.Errorf("guests do not fit the new %s: %s; stop or migrate them, or use another image", s.Name, found)); err != nil {
			return err
		}
	}
	t.fitted = append(t.fitted, guests...)
	return nil
}

// runningContainer returns the container that a service runs in now; its ID is ""
// if none runs.
func (t *transaction) runningContainer(ctx context.Context, service string) containers.Container {
	if old, ok := t.from.Service(service); ok {
		if c, err := t.node.Container(ctx, service, old.Origin); err == nil && c.State == containers.StateRunning {
			return c
		}
	}
	if !t.hosts[service] {
		return containers.Container{}
	}
	others, _ := t.running(ctx, group{{name: service}}) // of generations that were lost
	for _, id := range others[service] {
		c, err := t.node.Engine.Inspect(ctx, id)
		if err == nil && c.State == containers.StateRunning && c.Spec.Labels[node.LabelNode] == t.node.State() {
			return c
		}
	}
	return containers.Container{}
}

// questions are what the programs of a staged container, and of the one that runs
// now, are asked about guests.
type questions struct {
	t               *transaction
	service         generation.Service
	staged, running containers.Container
	guests          []guest.Guest
	offers          map[string]answered
	findings        fit.Findings
}

// answered is what a QEMU program answered.
type answered struct {
	fit.Offer
	name string // the program and its version
	err  error
}

// libvirt compares libvirt's versions. A libvirt does not load a newer one's
// record of a guest that has a flag which it does not know, and then lists the
// guest as shut off (libvirt: src/qemu/qemu_domain.c, qemuDomainObjPrivateXMLParse;
// src/conf/virdomainobjlist.c, virDomainObjListLoadAllConfigs). The libvirt that
// runs now has written all records: it does so again when it adopts a guest.
func (q *questions) libvirt(ctx context.Context) error {
	argv := q.service.Guests.Version
	if old, ok := q.t.from.Service(q.service.Name); len(argv) == 0 && ok && old.Guests != nil {
		argv = old.Guests.Version // a rollback to a generation without it
	}
	if len(argv) == 0 {
		return nil
	}
	answer, err := q.ask(ctx, q.staged, argv)
	if err != nil {
		q.findAll(err.Error())
		return nil
	}
	next := fit.Version(answer)
	if next == "" {
		return q.unknown("whether its libvirt can adopt guests is not known: %q printed no version", strings.Join(argv, " "))
	}
	if q.running.ID == "" {
		return q.unknown("whether libvirt %s can adopt guests is not known: the service does not run, so the version that it has now cannot be asked", next)
	}
	answer, err = q.ask(ctx, q.running, argv)
	now := fit.Version(answer)
	if err == nil && now == "" {
		err = errors.New("it printed no version")
	}
	if err != nil {
		return q.unknown("whether libvirt %s can adopt guests is not known: the version that runs now cannot be asked: %w", next, err)
	}
	if fit.Older(next, now) {
		q.findAll(fmt.Sprintf("libvirt %s is older than %s, which runs now: it may fail to adopt guests, and list them as shut off", next, now))
	}
	return nil
}

// qemu compares what guests need with what the QEMU at the same path offers.
func (q *questions) qemu(ctx context.Context) error {
	for _, g := range q.guests {
		args, err := q.t.node.Host.CommandLine(g.PID)
		if host.Gone(err) || err == nil && len(args) == 0 {
			continue // it has exited
		}
		if err != nil {
			return err
		}
		if err := q.compare(ctx, g, fit.NeedsOf(args)); err != nil {
			return err
		}
	}
	return nil
}

func (q *questions) compare(ctx context.Context, g guest.Guest, needs fit.Needs) error {
	offer := q.offer(ctx, q.staged, needs.Program)
	if offer.err != nil {
		q.findings.Add(offer.err.Error(), g.Name)
		return nil
	}
	var running answered
	if q.running.ID != "" {
		running = q.offer(ctx, q.running, needs.Program) // if it fails, features are not compared
	}
	for _, missing := range needs.Missing(offer.Offer, running.Offer) {
		q.findings.Add(offer.name+" has "+missing, g.Name)
	}
	for _, file := range needs.Files {
		path, err := q.t.node.Host.PathInside(q.staged.PID, file)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			q.findings.Add("there is no firmware file "+file, g.Name)
		}
	}
	if needs.Machine == "" || len(offer.Machines) == 0 || len(offer.Models) == 0 {
		return q.unknown("whether %s offers what guest %s needs is not known: its answers to -machine help and -cpu help were not understood", offer.name, g.Name)
	}
	return nil
}

// offer asks a QEMU program what it offers, once for each container.
func (q *questions) offer(ctx context.Context, c containers.Container, program string) answered {
	key := c.ID + " " + program
	if known, ok := q.offers[key]; ok {
		return known
	}
	var a answered
	// The program is what the guest's process says it is, and the answer comes from a
	// process with the rights of libvirt.
	if program, a.err = q.t.node.Host.RootsProgram(c.PID, program); a.err != nil {
		a.err = fmt.Errorf("its QEMU cannot be asked: %w", a.err)
		q.offers[key] = a
		return a
	}
	for _, question := range []struct {
		args []string
		read func(answer string)
	}{
		{[]string{"--version"}, func(answer string) { a.name = strings.TrimSpace(program + " " + fit.Version(answer)) }},
		{[]string{"-machine", "help"}, func(answer string) { a.Machines = fit.Machines(answer) }},
		{[]string{"-cpu", "help"}, func(answer string) { a.Models, a.Flags = fit.CPUs(answer) }},
	} {
		answer, err := q.ask(ctx, c, append([]string{program}, question.args...))
		if err != nil {
			a.err = err
			break
		}
		question.read(answer)
	}
	q.offers[key] = a
	return a
}

// ask runs a program in a container and returns what it prints.
func (q *questions) ask(ctx context.Context, c containers.Container, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var stdout, stderr strings.Builder
	status, err := q.t.node.Engine.Exec(ctx, c.ID, containers.Exec{Argv: argv, User: q.service.User, Short: true, Stdout: &stdout, Stderr: &stderr})
	if err == nil && status != 0 {
		reason, _, _ := strings.Cut(strings.TrimSpace(stderr.String()+stdout.String()), "\n")
		err = fmt.Errorf("exit status %d: %s", status, printable.Reason(reason))
	}
	if err != nil {
		return "", fmt.Errorf("%q fails: %w", strings.Join(argv, " "), err)
	}
	return stdout.String(), nil
}

// findAll adds a finding about every guest.
func (q *questions) findAll(finding string) {
	for _, g := range q.guests {
		q.findings.Add(finding, g.Name)
	}
}

// unknown warns about what cannot be found out. It does not refuse the upgrade,
// which may be what repairs the service.
func (q *questions) unknown(format string, args ...any) error {
	return q.t.warn(q.service.Name, format, args...)
}
