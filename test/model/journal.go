package model

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/journal"
)

// maxGroups is how many groups a journal may name.
const maxGroups = 16

// Numbers of upgrade.pml. A step that exists for each group is the first of them.
var (
	eventNumbers = map[journal.Event]int{
		journal.Begin: 1, journal.Intent: 2, journal.Done: 3, journal.Failed: 4,
		journal.Undo: 5, journal.Undone: 6, journal.Commit: 7, journal.End: 8,
	}
	stepNumbers = map[journal.StepKind]int{
		journal.Check: 1, journal.Pull: 2, journal.Render: 3, journal.Stage: 4, journal.Quiesce: 6,
		journal.ProtectGuests: 7, journal.CutOver: 8, journal.FindGuests: 9, journal.Verify: 7 + 3*maxGroups,
	}
	outcomeNumbers = map[journal.Outcome]int{
		journal.Committed: 1, journal.Unchanged: 2, journal.RolledBack: 3,
		journal.Discarded: 4, journal.Deferred: 5, journal.Stuck: 6,
	}
)

// checkAgain is the second check.
const checkAgain = 5

// Verifier says whether the model allows a journal.
type Verifier struct{ program string }

// NewVerifier compiles a verifier in a directory. It needs spin and gcc.
func NewVerifier(ctx context.Context, dir string) (Verifier, error) {
	program, err := build(ctx, dir, []string{"JOURNAL", fmt.Sprintf("SERVICES=%d", maxGroups)}, []string{"SAFETY"})
	return Verifier{program}, err
}

// Compiled returns the verifier that NewVerifier has compiled in a directory.
func Compiled(dir string) Verifier { return Verifier{filepath.Join(dir, verifierProgram)} }

// Allows reports whether the model has a run that appends these records and no others,
// whether it ended or was interrupted. If the disk may have failed, any record of an
// undo can be missing.
func (v Verifier) Allows(ctx context.Context, records []journal.Record, diskFails bool) (bool, error) {
	text, err := translate(records, diskFails)
	if err != nil || len(records) == 0 {
		return err == nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(v.program), "journal")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "records")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return false, err
	}
	violated, report, err := search(ctx, v.program, []string{"KOLLET_MODEL_JOURNAL=" + path}, "-E", "-w16")
	if violated != "" && !strings.Contains(violated, "accepted") {
		return false, fmt.Errorf("the journal leads the model to violate an assertion: %s\n%s", violated, report)
	}
	return violated != "", err
}

// Check returns an error if the model does not allow one of the journals in a directory.
func (v Verifier) Check(ctx context.Context, dir string) error {
	numbers, err := journal.List(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range numbers {
		records, err := journal.Read(dir, n)
		if err != nil {
			return err
		}
		allowed, err := v.Allows(ctx, records, false)
		if err == nil && !allowed {
			err = errors.New("the model has no run that leaves it")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("journal %d: %w", n, err))
		}
	}
	return errors.Join(errs...)
}

// translate writes a journal as journal.pml reads it. Groups get their numbers in the
// order in which they are cut over; a step before a group's cutover belongs to it.
func translate(records []journal.Record, diskFails bool) (string, error) {
	var groups []string
	quiesces, staged := false, false
	guests := map[int]bool{}
	var lines []string
	for i, r := range records {
		if r.Event == journal.Warning {
			continue
		}
		number, step, outcome := eventNumbers[r.Event], stepNumbers[r.Step.Kind], outcomeNumbers[r.Outcome]
		if number == 0 || step == 0 && r.Step.Kind != "" || outcome == 0 && r.Outcome != "" {
			return "", fmt.Errorf("record %d: the model does not have %q %q %q; add it to upgrade.pml", i+1, r.Event, r.Step.Kind, r.Outcome)
		}
		switch r.Step.Kind {
		case journal.Stage:
			staged = true
		case journal.Check:
			if staged {
				step = checkAgain
			}
		case journal.Quiesce:
			quiesces = true
		case journal.CutOver:
			name := strings.Join(r.Step.Services, " ")
			if !slices.Contains(groups, name) {
				groups = append(groups, name)
			}
			step += 3 * slices.Index(groups, name)
		case journal.ProtectGuests:
			guests[len(groups)] = true
			step += 3 * len(groups)
		case journal.FindGuests:
			at := max(0, len(groups)-1)
			guests[at] = true
			step += 3 * at
		default:
		}
		lines = append(lines, fmt.Sprintf("%d %d %d", number, step, outcome))
	}
	count := len(groups)
	for at := range guests {
		count = max(count, at+1)
	}
	if count > maxGroups {
		return "", fmt.Errorf("the journal names %d groups, and the model has %d; raise maxGroups", count, maxGroups)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d %d %d", count, bit(quiesces), bit(diskFails))
	for at := range count {
		fmt.Fprintf(&text, " %d", bit(guests[at]))
	}
	fmt.Fprintf(&text, "\n%s\n", strings.Join(lines, "\n"))
	return text.String(), nil
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
