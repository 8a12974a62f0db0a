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

// Format is the number of the journals' format. This kollet writes and reads this
// format only. A new event, step, outcome or field is a new format;
// docs/development.md describes what raising the number takes.
const Format = 1

// Event says what a record is about.
type Event string

const (
	Begin   Event = "begin"   // the transaction starts; From, To, Reason and Engine are set
	Intent  Event = "intent"  // Step starts
	Done    Event = "done"    // Step succeeded
	Failed  Event = "failed"  // Step, or undoing it, failed; Note says why
	Warning Event = "warning" // Note says what is wrong; the transaction continues
	Undo    Event = "undo"    // undoing Step starts
	Undone  Event = "undone"  // Step is undone
	Commit  Event = "commit"  // the new generation is the node's; recovery only goes forward from here
	End     Event = "end"     // the transaction ended; Outcome is set
)

// StepKind is a kind of step.
type StepKind string

const (
	Check         StepKind = "check"          // run the prechecks
	Pull          StepKind = "pull"           // fetch images
	Render        StepKind = "render"         // write the new generation's directory
	Stage         StepKind = "stage"          // start new containers, up to their gates
	Quiesce       StepKind = "quiesce"        // wait until no operation is under way
	ProtectGuests StepKind = "protect-guests" // move guests out of the containers that will be stopped
	CutOver       StepKind = "cut-over"       // replace the tasks of Services
	FindGuests    StepKind = "find-guests"    // check that every guest still runs
	Verify        StepKind = "verify"         // wait until the new generation is healthy
)

// Step is one step of a transaction.
type Step struct {
	Kind     StepKind `json:"kind"`
	Services []string `json:"services,omitempty"` // of a cutover, in start order; empty for other kinds
}

// String is the step as users read it: "stage", "cut over nova-libvirt".
func (s Step) String() string { return s.Text(Intent) }

// Text describes the event of a step to users: "cut over a, b", "undo stage",
// "pull (failed)".
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
	Committed  Outcome = "committed"         // the new generation runs
	Unchanged  Outcome = "nothing to do"     // the new generation would equal the old one
	RolledBack Outcome = "rolled back"       // the old generation runs again
	Discarded  Outcome = "discarded"         // the upgrade failed before any service was cut over
	Deferred   Outcome = "deferred"          // operations were under way; nothing was cut over
	Stuck      Outcome = "needs an operator" // the old generation runs again, but is not healthy
)

// Record is one line of a journal.
type Record struct {
	Format   int                 `json:"format,omitempty"` // of the journal, in its first record; set by Append
	Version  string              `json:"kollet,omitempty"` // of the kollet that writes the journal, in its first record; set by Append
	Time     time.Time           `json:"time"`
	Event    Event               `json:"event"`
	Step     Step                `json:"step,omitzero"`
	Note     string              `json:"note,omitempty"`
	From     int                 `json:"from,omitempty"`
	To       int                 `json:"to,omitempty"`
	Reason   string              `json:"reason,omitempty"`
	Engine   string              `json:"engine,omitempty"`   // docker, containerd or podman; not in journals of older versions
	Previous map[string][]string `json:"previous,omitempty"` // service: containers that ran before its cutover
	Gaps     map[string]Gap      `json:"gaps,omitempty"`     // by service
	Outcome  Outcome             `json:"outcome,omitempty"`
}

// Gap is the gap of one service in its cutover. Times are in milliseconds after
// the old task was told to stop.
type Gap struct {
	Ended   float64 `json:"ended_ms"`   // the old task has ended
	Opened  float64 `json:"opened_ms"`  // the new task's gate is open
	Healthy float64 `json:"healthy_ms"` // every probe has passed once
}

var (
	events    = []Event{Begin, Intent, Done, Failed, Warning, Undo, Undone, Commit, End}
	stepKinds = []StepKind{Check, Pull, Render, Stage, Quiesce, ProtectGuests, CutOver, FindGuests, Verify}
	outcomes  = []Outcome{Committed, Unchanged, RolledBack, Discarded, Deferred, Stuck}
)

// decode reads the record on a line. unknown describes content that this version
// does not know. An error means that the line is damaged.
func decode(line []byte, first bool) (r Record, unknown string, err error) {
	var h format.Header
	if first {
		if err := json.Unmarshal(line, &h); err != nil {
			return r, "", err
		}
	}
	if first && h.Format != 0 && h.Format != Format {
		return Record{Version: h.Kollet}, h.Unknown(Format), nil // the other fields can have another meaning
	}
	field, err := format.Strict(line, &r)
	if err != nil {
		return r, "", err
	}
	if unknown := r.unknown(); unknown != "" {
		return r, unknown, nil
	}
	if !r.fits(first) {
		return r, "", errors.New("incomplete, or in the wrong place")
	}
	if first && h.Format == 0 {
		return r, h.Unknown(Format), nil
	}
	return r, field, nil
}

// recording is what Append is doing.
func (r Record) recording() string {
	if r.Step.Kind == "" {
		return fmt.Sprintf("journal %s", r.Event)
	}
	return fmt.Sprintf("journal %s %s", r.Event, r.Step)
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

// fits reports whether a record is complete and allowed at its place. After a
// crash that left the journal empty, recovery's End is its only record.
func (r Record) fits(first bool) bool {
	switch r.Event {
	case Begin:
		return first && r.To > 0
	case Warning:
		return !first && r.Note != ""
	case Commit:
		return !first
	case End:
		return r.Outcome != ""
	case Intent, Done, Failed, Undo, Undone:
		return !first && r.Step.Kind != "" && (r.Step.Kind == CutOver) == (len(r.Step.Services) > 0)
	}
	return false
}

// lastStep returns the last step in a journal of any format, as users read it;
// empty if there is none.
func lastStep(journal []byte) string {
	last := ""
	for line := range strings.Lines(string(journal)) {
		var named struct{ Step json.RawMessage }
		if json.Unmarshal([]byte(line), &named) != nil || len(named.Step) == 0 {
			continue
		}
		var text string // before formats had numbers, a step was a text
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
