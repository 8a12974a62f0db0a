package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/agent/quiesce"
)

// job is one migration or block job of a guest, as its libvirt reports it.
type job struct{ uuid, name, text string }

func (j job) operation() quiesce.Operation {
	return quiesce.Operation{Subject: fmt.Sprintf("guest %s (%s)", j.name, j.uuid), Task: "has a job: " + j.text}
}

// jobsTimeout is how long the command that lists jobs may take. Libvirt waits 30 s
// for a QEMU that does not answer.
const jobsTimeout = time.Minute

// guestJobs asks the running libvirt of a service for the jobs of its guests.
func (t *transaction) guestJobs(ctx context.Context, m member) ([]job, error) {
	command := jobsCommand(m)
	if len(command) == 0 {
		return nil, nil
	}
	running, err := t.running(ctx, group{m})
	if err != nil {
		return nil, err
	}
	var found []job
	for _, id := range running[m.name] {
		jobs, err := t.jobsIn(ctx, id, m.running().User, command)
		if err != nil {
			return nil, fmt.Errorf("ask %s for the jobs of its guests: %w", m.name, err)
		}
		found = append(found, jobs...)
	}
	return found, nil
}

// libvirts are the services whose guests may have jobs: also one that keeps its
// container, because nova-compute waits for them.
func (t *transaction) libvirts() group {
	var found group
	for _, old := range t.from.Services {
		if old.Guests != nil {
			next, _ := t.to.Service(old.Name)
			found = append(found, member{name: old.Name, old: old, new: next})
		}
	}
	for _, next := range t.to.Services {
		if _, known := t.from.Service(next.Name); !known && t.hosts[next.Name] {
			found = append(found, member{name: next.Name, new: next, hosts: true})
		}
	}
	return found
}

// jobsCommand prefers the new generation's setting.
func jobsCommand(m member) []string {
	for _, guests := range []*nodefile.Guests{m.new.Guests, m.old.Guests} {
		if guests != nil {
			return guests.Jobs
		}
	}
	return nil
}

func (t *transaction) jobsIn(ctx context.Context, id, user string, command []string) ([]job, error) {
	out, err := t.output(ctx, id, user, command, jobsTimeout)
	if err != nil {
		return nil, err
	}
	guests, err := t.node.Guests()
	if err != nil {
		return nil, err
	}
	var jobs []job
	for line := range strings.Lines(out) {
		uuid, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if uuid == "" {
			continue
		}
		j := job{uuid: printable.Line(uuid), name: "of libvirt", text: printable.Line(text)}
		for _, g := range guests {
			if g.UUID == uuid {
				j.name = g.Name
			}
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// awaitJobs waits until the guests of a libvirt that is about to be stopped have no jobs.
// nova-compute, which is stopped before it, may have received a migration after the step
// quiesce, and has finished its part of it in its graceful stop.
func (t *transaction) awaitJobs(ctx context.Context, old oldTask) error {
	service, _ := t.to.Service(old.service.Name)
	command := jobsCommand(member{old: old.service, new: service})
	if len(command) == 0 || old.process == nil || t.options.Force {
		return nil
	}
	err := t.waiting().Wait(ctx, func(ctx context.Context) ([]quiesce.Operation, error) {
		jobs, err := t.jobsIn(ctx, old.container.ID, old.service.User, command)
		if err != nil {
			return nil, fmt.Errorf("ask for the jobs of its guests: %w", err)
		}
		var all []quiesce.Operation
		for _, j := range jobs {
			all = append(all, j.operation())
		}
		return all, nil
	})
	if _, busy := errors.AsType[*quiesce.Busy](err); busy {
		return fmt.Errorf("%w; let it finish, and run the upgrade again", err)
	}
	return err
}
