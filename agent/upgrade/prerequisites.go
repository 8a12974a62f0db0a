package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/doctor"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/plan"
)

// checkServices refuses an upgrade that could only be rolled back, before anything
// takes time: if what the replaced services require does not answer, or if a service
// that stays is unhealthy. An unhealthy service that is replaced may be the reason for
// the upgrade.
func (t *transaction) checkServices(ctx context.Context) error {
	if t.first() {
		return nil // nothing runs yet, see awaitRequired
	}
	if err := t.refuseRunning(ctx); err != nil {
		return err
	}
	replaced := slices.Clone(t.target.Services)
	replaced = slices.DeleteFunc(replaced, func(s generation.Service) bool { return !t.planned(s.Name) })
	if err := t.refuseAll(doctor.Requires(ctx, withoutCommands(replaced), doctor.Running(ctx, t.node, t.from))); err != nil {
		return err
	}
	var stay []generation.Service
	for _, s := range t.from.Services {
		if slices.ContainsFunc(t.target.Services, func(n generation.Service) bool { return n.Name == s.Name }) {
			stay = append(stay, s)
		}
	}
	return t.refuseUnhealthy(ctx, stay, func(name string) bool { return t.planned(name) || t.target.Pull == "always" })
}

// withoutCommands leaves out commands in what services require. They say what the container
// needs in which they run, and the containers of these services do not exist yet.
func withoutCommands(services []generation.Service) []generation.Service {
	services = slices.Clone(services)
	for i := range services {
		services[i].Requires = slices.DeleteFunc(slices.Clone(services[i].Requires), func(p nodefile.Probe) bool { return len(p.Exec) > 0 })
	}
	return services
}

// refuseRunning refuses an upgrade while processes run that no cutover can stop: of a container
// that was killed and has not exited, because nothing can end it, and of one that the engine
// does not list. They still have what their successors need.
func (t *transaction) refuseRunning(ctx context.Context) error {
	all, err := t.node.Containers(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	if err := t.node.Host.Hanging(ids...); err != nil {
		return fmt.Errorf("check services: %w; end what it waits for, or restart the machine", err)
	}
	past := func(u guest.Unlisted) bool { return !u.Waits }
	if err := requireListed(ctx, t.node, all, past); err != nil {
		return fmt.Errorf("check services: %w", err)
	}
	return nil
}

// planned reports whether the plan replaces a service.
func (t *transaction) planned(service string) bool {
	return slices.ContainsFunc(t.plan.Changes, func(c plan.Change) bool {
		return c.Service == service && (c.Action == plan.Add || c.Action == plan.Replace)
	})
}

// checkAgain repeats checkServices right before the first cutover: pulling and staging
// take minutes, and only now is it certain what is replaced. The staged containers
// have the new configuration, so probes that need a container are run in them.
func (t *transaction) checkAgain(ctx context.Context) error {
	if t.unchanged() {
		return nil
	}
	var replaced, stay []generation.Service
	for _, s := range t.to.Services {
		if s.Origin == t.to.Number {
			if err := t.requireClosed(s.Name); err != nil {
				return err
			}
			replaced = append(replaced, s)
		} else if s.Origin == 0 {
			continue // it does not run yet
		} else if _, known := t.unhealthy[s.Name]; !known {
			stay = append(stay, s)
		}
	}
	staged := t.stagedTargets(ctx, replaced)
	if t.first() {
		return t.awaitRequired(ctx, replaced, staged)
	}
	if err := t.refuseAll(doctor.Requires(ctx, replaced, staged)); err != nil {
		return err
	}
	if err := t.askPlacement(ctx, replaced); err != nil {
		return err
	}
	return t.refuseUnhealthy(ctx, stay, func(string) bool { return false })
}

// replacedVar lists, in the environment of commands in what services require, the services that
// are replaced with them.
const replacedVar = "KOLLET_REPLACED"

// stagedTargets returns the containers in which the probes of what services require are run.
func (t *transaction) stagedTargets(ctx context.Context, replaced []generation.Service) doctor.Containers {
	var names []string
	for _, s := range replaced {
		names = append(names, s.Name)
	}
	staged := doctor.Running(ctx, t.node, t.to)
	return func(service string) (health.Target, bool) {
		target, runs := staged(service)
		target.Env = map[string]string{replacedVar: strings.Join(names, " ")}
		return target, runs
	}
}

// awaitRequired waits at a first boot for what the services require: the node may be
// faster than the control plane. There is nothing that a refusal would protect, so
// the services are started in any case.
func (t *transaction) awaitRequired(ctx context.Context, services []generation.Service, in doctor.Containers) error {
	err := t.node.Await(ctx, t.target.Wait, "what the services require", func(ctx context.Context) error {
		return problem(doctor.Requires(ctx, services, in))
	}, func(error) bool { return true })
	if err == nil || ctx.Err() != nil {
		return err
	}
	return t.warn("", "%w", err)
}

func (t *transaction) refuseAll(checks []doctor.Check) error {
	for _, c := range checks {
		if err := problem([]doctor.Check{c}); err != nil {
			if err := t.refuse(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// problem returns the first problem of some checks.
func problem(checks []doctor.Check) error {
	for _, c := range checks {
		if c.Level == doctor.Bad {
			return fmt.Errorf("check %s: %s; %s", c.Name, c.Text, c.Remedy)
		}
	}
	return nil
}

// refuseUnhealthy warns of unhealthy services that are replaced, and refuses the
// upgrade for others. With --force, these are not judged by verify either.
func (t *transaction) refuseUnhealthy(ctx context.Context, services []generation.Service, replaced func(string) bool) error {
	sick := doctor.Unhealthy(ctx, t.node, services)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var errs []error
	for _, s := range services {
		why := sick[s.Name]
		switch {
		case why == nil:
		case replaced(s.Name):
			errs = append(errs, t.warn(s.Name, "unhealthy before its replacement: %w", why))
		default:
			err := t.refuse(fmt.Errorf("check services: %s is unhealthy, and would not be replaced: %w; repair it first, for example with `kollet logs %s`", s.Name, why, s.Name))
			if err != nil {
				return err
			}
			t.unhealthy[s.Name] = why
		}
	}
	return errors.Join(errs...)
}
