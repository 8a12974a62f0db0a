package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/format"
)

// Format is the number of the journals' format: the one that this kollet writes
// and the only one that it reads. A new event, step, outcome or field is a new
// format.
const Format = 1

// Event says what a record is about.
type Event string

const (
	Begin  Event = "begin"  // the transaction starts; From, To and Reason are set
	Intent Event = "intent" // a step is about to be done
	Done   Event = "done"   // it was done
	Failed Event = "failed" // it was not; Note says why
	Undo   Event = "undo"   // a step is about to be undone
	Undone Event = "undone" // it was undone
	Commit Event = "commit" // the new generation is trusted: from here there is no way back
	End    Event = "end"    // nothing is left to do; Outcome says how it ended
)

// StepKind is a kind of step.
type StepKind string

const (
	Check         StepKind = "check"          // what an upgrade needs is there
	Pull          StepKind = "pull"           // images are fetched
	Render        StepKind = "render"         // the new generation's directory is written
	Stage         StepKind = "stage"          // new containers wait at their gates
	ProtectGuests StepKind = "protect-guests" // guests are moved out of the containers to be stopped
	CutOver       StepKind = "cut-over"       // Services are replaced
	FindGuests    StepKind = "find-guests"    // every guest is still there
	Verify        StepKind = "verify"         // the new generation is healthy
)

// Step is one step of a transaction.
type Step struct {
	Kind     StepKind `json:"kind"`
	Services []string `json:"services,omitempty"` // that are cut over together, in start order; none for other kinds
}

// String is the step as users read it: "stage", "cut over nova-libvirt".
func (s Step) String() string { return s.Text(Intent) }

// Text is what users read of a step and what happens to it: "cut over a, b",
// "undo stage", "pull (failed)".
func (s Step) Text(e Event) string {
	text := strings.ReplaceAll(string(s.Kind), "-", " ")
	if len(s.Services) > 0 {
		text += " " + strings.Join(s.Services, ", ")
	}
	switch e {
	case Undo, Undone:
		return "undo " + text
	case Failed:
		return text + " (failed)"
	default:
		return text
	}
}

// Outcome of a transaction.
type Outcome string

const (
	Committed  Outcome = "committed"     // the node is on the new generation
	Unchanged  Outcome = "nothing to do" // the new generation would equal the old one
	RolledBack Outcome = "rolled back"   // services were cut over, and cut back
	Discarded  Outcome = "discarded"     // it failed before any service was touched
	Stuck      Outcome = "needs an operator"
)

// Record is one line of a journal.
type Record struct {
	Format   int                 `json:"format,omitempty"` // of the journal; set by Append in its first record
	Version  string              `json:"kollet,omitempty"` // that writes the journal; in its first record
	Time     time.Time           `json:"time"`
	Event    Event               `json:"event"`
	Step     Step                `json:"step,omitzero"`
	Note     string              `json:"note,omitempty"`
	From     int                 `json:"from,omitempty"`
	To       int                 `json:"to,omitempty"`
	Reason   string              `json:"reason,omitempty"`
	Previous map[string][]string `json:"previous,omitempty"` // service: containers that ran before its cut over
	Gaps     map[string]Gap      `json:"gaps,omitempty"`     // service: how long it was away
	Outcome  Outcome             `json:"outcome,omitempty"`
}

// Gap is how long one service was away during its cut over, in milliseconds
// after its old process was told to stop.
type Gap struct {
	Ended   float64 `json:"ended_ms"`   // the old process was gone
	Opened  float64 `json:"opened_ms"`  // the new one was let go
	Healthy float64 `json:"healthy_ms"` // every probe had passed once
}

var (
	events    = []Event{Begin, Intent, Done, Failed, Undo, Undone, Commit, End}
	stepKinds = []StepKind{Check, Pull, Render, Stage, ProtectGuests, CutOver, FindGuests, Verify}
	outcomes  = []Outcome{Committed, Unchanged, RolledBack, Discarded, Stuck}
)

// decode reads the record on a line. What is not known is returned in words; an
// error means that the line is damaged.
func decode(line []byte, first bool) (r Record, unknown string, err error) {
	var h format.Header
	if err := json.Unmarshal(line, &h); err != nil {
		return r, "", err
	}
	if first && h.Format != 0 && h.Format != Format {
		return Record{Version: h.Kollet}, h.Unknown(Format), nil // the rest may mean anything
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, "", err
	}
	if unknown := r.unknown(); unknown != "" {
		return r, unknown, nil
	}
	if !r.fits(first) {
		return r, "", errors.New("no record of a journal, or not at its place")
	}
	if first && h.Format == 0 {
		return r, h.Unknown(Format), nil
	}
	return r, format.UnknownField(line, &r), nil
}

// unknown names an event, step or outcome that this version does not know.
func (r Record) unknown() string {
	switch {
	case r.Event != "" && !slices.Contains(events, r.Event):
		return fmt.Sprintf("unknown event %q", r.Event)
	case r.Step.Kind != "" && !slices.Contains(stepKinds, r.Step.Kind):
		return fmt.Sprintf("unknown step %q", r.Step.Kind)
	case r.Outcome != "" && !slices.Contains(outcomes, r.Outcome):
		return fmt.Sprintf("unknown outcome %q", r.Outcome)
	}
	return ""
}

// fits reports whether a record is complete and may be where it is. Recovery
// ends a journal that a crash left empty: its only record is the end.
func (r Record) fits(first bool) bool {
	switch r.Event {
	case Begin:
		return first && r.To > 0
	case Commit:
		return !first
	case End:
		return r.Outcome != ""
	case Intent, Done, Failed, Undo, Undone:
		return !first && r.Step.Kind != "" && (r.Step.Kind == CutOver) == (len(r.Step.Services) > 0)
	}
	return false
}

// lastStep is the last step that a journal of any format names, as users read
// it; empty if none can be found.
func lastStep(journal []byte) string {
	last := ""
	for line := range strings.Lines(string(journal)) {
		var named struct{ Step json.RawMessage }
		if json.Unmarshal([]byte(line), &named) != nil || len(named.Step) == 0 {
			continue
		}
		var text string // as it was before it had fields
		var step Step
		switch {
		case json.Unmarshal(named.Step, &text) == nil:
			last = text
		case json.Unmarshal(named.Step, &step) == nil && step.Kind != "":
			last = step.String()
		}
	}
	return last
}
