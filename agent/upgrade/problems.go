package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/agent/quiesce"
)

// A probe says that a service answers, not that all it provides is there: a switch may have
// lost a port. So a service may have a command that prints its problems. Those that it has
// before its cutover do not count: an upgrade may be what repairs them.

const (
	problemsTimeout = 30 * time.Second // of one run of the command
	mostProblems    = 1000             // lines that it may print
	// How long problems may last that come with the cutover, for example until a switch has
	// its flows again, and the pause between two questions.
	problemsLimit    = time.Minute
	problemsInterval = time.Second
	// How often in a row none may be found: some come and go, for example while a switch
	// loses its flows again and again.
	problemsGone = 3
)

// problems are what services said before the first cutover.
type problems struct {
	limit, interval time.Duration
	before          map[string]map[string]bool // by service; nil: they have not been asked
}

func newProblems() problems {
	return problems{limit: problemsLimit, interval: problemsInterval}
}

// concerns reports whether the cutover of a group may change what a service provides.
func (g group) concerns(s generation.Service) bool {
	return slices.ContainsFunc(g, func(m member) bool {
		sameGroup := s.Group != "" && (s.Group == m.old.Group || s.Group == m.new.Group)
		return m.name == s.Name || sameGroup || slices.Contains(s.DependsOn, m.name)
	})
}

// noteProblems asks the services that a cutover concerns for their problems. It does so once,
// before the first cutover: afterwards, what they say may be the upgrade's doing. What a
// service does not say then cannot be compared.
func (t *transaction) noteProblems(ctx context.Context) error {
	if t.problems.before != nil {
		return nil
	}
	t.problems.before = map[string]map[string]bool{}
	groups := t.groups()
	for _, s := range t.to.Services {
		old, known := t.from.Service(s.Name)
		concerned := slices.ContainsFunc(groups, func(g group) bool { return g.concerns(s) })
		if !known || len(s.Problems) == 0 || !concerned {
			continue
		}
		c := t.runningContainer(ctx, s.Name)
		if c.ID == "" {
			continue
		}
		found, err := t.problemsIn(ctx, c.ID, old.User, s.Problems)
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil {
			if err := t.warn(s.Name, "whether the upgrade adds problems will not be known: list its problems: %w", err); err != nil {
				return err
			}
			continue
		}
		t.problems.before[s.Name] = map[string]bool{}
		for _, problem := range found {
			t.problems.before[s.Name][problem] = true
		}
	}
	return nil
}

// problemsIn runs the command that prints the problems of a service.
func (t *transaction) problemsIn(ctx context.Context, id, user string, command []string) ([]string, error) {
	out, err := t.output(ctx, id, user, command, problemsTimeout)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, fmt.Errorf("it did not answer within %v: %w", problemsTimeout, err)
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(out) {
		if line = printable.Line(line); line != "" {
			found = append(found, line)
		}
		if len(found) > mostProblems {
			return nil, fmt.Errorf("it printed more than %d lines", mostProblems)
		}
	}
	return found, nil
}

// addsNoProblem requires that a service has no problem that it did not have before its cutover.
// Only what is wrong has to end within the limit: a service whose answers take long has time for
// all that it needs.
func (t *transaction) addsNoProblem(ctx context.Context, s generation.Service) error {
	before, asked := t.problems.before[s.Name]
	if !asked {
		return nil
	}
	c, err := t.node.Container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	var first time.Time // that something was wrong
	for gone := 0; ; {
		now := time.Now()
		err := t.noneAdded(ctx, c.ID, s, before)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			if gone++; gone == problemsGone {
				return nil
			}
		case first.IsZero():
			gone, first = 0, now
		case now.Sub(first) >= t.problems.limit:
			return failure{s.Name, c.ID, err}
		default:
			gone = 0
		}
		if err := quiesce.Pause(ctx, t.problems.interval); err != nil {
			return err
		}
	}
}

// noneAdded asks a service once for its problems, and fails if there is one that it did not have before.
func (t *transaction) noneAdded(ctx context.Context, id string, s generation.Service, before map[string]bool) error {
	found, err := t.problemsIn(ctx, id, s.User, s.Problems)
	if err != nil {
		return fmt.Errorf("list its problems: %w", err)
	}
	added := slices.DeleteFunc(found, func(problem string) bool { return before[problem] })
	if len(added) == 0 {
		return nil
	}
	return errors.New("it has problems that it did not have before the upgrade: " + named(added))
}

// namedProblems is how many problems an error names.
const namedProblems = 5

// named names the first of some problems.
func named(all []string) string {
	text := strings.Join(all[:min(len(all), namedProblems)], "; ")
	if more := len(all) - namedProblems; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
