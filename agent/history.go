package agent

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/nodefile"
)

// Entry is one upgrade of the node's history.
type Entry struct {
	Generation int                    `json:"generation"`
	From       int                    `json:"from"`
	Reason     string                 `json:"reason"`
	Started    time.Time              `json:"started"`
	Took       Seconds                `json:"seconds"`
	Outcome    journal.Outcome        `json:"outcome"` // empty while it runs, or if it was interrupted
	Current    bool                   `json:"current"`
	Kept       bool                   `json:"kept"`              // can be rolled back to
	Hotfix     nodefile.Hotfix        `json:"hotfix,omitzero"`   // of a generation that is kept
	Problem    string                 `json:"problem,omitempty"` // why the record of a generation that runs or is kept cannot be read
	Why        string                 `json:"why,omitempty"`
	Warnings   []string               `json:"warnings,omitempty"`
	Steps      []StepTime             `json:"steps"`
	Gaps       map[string]journal.Gap `json:"gaps,omitempty"`
}

// Seconds is a duration that JSON shows in seconds.
type Seconds time.Duration

// MarshalJSON writes seconds, with milliseconds.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Round(time.Millisecond).Seconds(), 'f', -1, 64), nil
}

// UnmarshalJSON reads seconds.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	seconds, err := strconv.ParseFloat(string(data), 64)
	*s = Seconds(seconds * float64(time.Second))
	return err
}

// StepTime is how long a step took.
type StepTime struct {
	Step string  `json:"step"`
	Took Seconds `json:"seconds"`
}

// Unreadable is the outcome of an upgrade whose journal is damaged, or that another
// version of kollet wrote, in a format that this one does not know. Why has the reason.
const Unreadable journal.Outcome = "unreadable"

// History lists all upgrades that left a journal, the latest first. It marks those to a
// generation whose record cannot be read.
func (a *Agent) History() ([]Entry, error) {
	numbers, err := journal.List(a.node.Journals())
	if err != nil {
		return nil, err
	}
	current, err := a.node.CurrentNumber()
	if err != nil {
		return nil, err
	}
	_, unreadable := a.node.Current()
	kept, err := a.node.Kept()
	if err != nil {
		return nil, err
	}
	entries := []Entry{}
	for _, number := range slices.Backward(numbers) {
		records, err := journal.Read(a.node.Journals(), number)
		e := entry(number, records)
		if err != nil {
			e.Outcome, e.Why = Unreadable, err.Error()
		}
		e.Current, e.Kept = e.Generation == current, slices.Contains(kept, e.Generation)
		g, err := a.node.Store().Load(e.Generation)
		e.Hotfix = g.Hotfix
		switch {
		case e.Current && unreadable != nil:
			e.Problem, unreadable = unreadable.Error(), nil
		case e.Kept && err != nil:
			e.Problem = fmt.Sprintf("%v; the node cannot be rolled back to it", err)
		}
		entries = append(entries, e)
	}
	return entries, unreadable // unless it is marked
}

func entry(number int, records []journal.Record) Entry {
	e := Entry{Generation: number, Steps: []StepTime{}}
	var begun time.Time
	for i, r := range records {
		if i == 0 { // its beginning, unless a crash left nothing but recovery's end
			e.Started, begun = r.Time, r.Time
		}
		switch r.Event {
		case journal.Begin:
			e.From, e.Reason = r.From, r.Reason
		case journal.Intent, journal.Undo:
			begun = r.Time
		case journal.Done:
			e.Steps = append(e.Steps, StepTime{r.Step.Text(r.Event), between(begun, r.Time)})
		case journal.Undone:
			e.Steps = append(e.Steps, StepTime{r.Step.Text(r.Event), between(begun, r.Time)})
		case journal.Failed:
			e.Steps = append(e.Steps, StepTime{r.Step.Text(r.Event), between(begun, r.Time)})
			if e.Why == "" {
				e.Why = r.Note
			}
		case journal.Warning:
			e.Warnings = append(e.Warnings, r.Note)
		case journal.Commit:
			e.Gaps = r.Gaps
		case journal.End:
			e.Outcome = r.Outcome
		}
		e.Took = between(e.Started, r.Time)
	}
	return e
}

// between is how long something took; 0 if the clock was set back meanwhile.
func between(begun, ended time.Time) Seconds { return Seconds(max(0, ended.Sub(begun))) }
