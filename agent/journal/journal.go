// Package journal records an upgrade as it happens: what is about to be done,
// what came of it, and how it ended. Each record is on stable storage before
// Append returns, so that recovery can decide from the journal alone.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/durable"
)

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

// Outcome of a transaction.
type Outcome string

const (
	Committed  Outcome = "committed"   // the node is on the new generation
	RolledBack Outcome = "rolled back" // services were cut over, and cut back
	Discarded  Outcome = "discarded"   // it failed before any service was touched
	Stuck      Outcome = "needs an operator"
)

// Record is one line of a journal.
type Record struct {
	Time    time.Time           `json:"time"`
	Event   Event               `json:"event"`
	Step    string              `json:"step,omitempty"`
	Note    string              `json:"note,omitempty"`
	From    int                 `json:"from,omitempty"`
	To      int                 `json:"to,omitempty"`
	Reason  string              `json:"reason,omitempty"`
	Old     map[string][]string `json:"old,omitempty"`  // service: containers that ran before its cut over
	Gaps    map[string]Gap      `json:"gaps,omitempty"` // service: how long it was away
	Outcome Outcome             `json:"outcome,omitempty"`
}

// Gap is how long one service was away during its cut over, in milliseconds
// after its old process was told to stop.
type Gap struct {
	Ended   float64 `json:"ended_ms"`   // the old process was gone
	Opened  float64 `json:"opened_ms"`  // the new one was let go
	Healthy float64 `json:"healthy_ms"` // every probe had passed once
}

// Journal is the journal of one transaction, open for appending.
type Journal struct {
	file  *os.File
	now   func() time.Time
	count int
	whole int64 // bytes of whole records
}

// Create starts the journal of the transaction that leads to generation begin.To.
func Create(dir string, begin Record, now func() time.Time) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the journal directory: %w", err)
	}
	f, err := os.OpenFile(path(dir, begin.To), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start the journal: %w", err)
	}
	j := &Journal{file: f, now: now}
	begin.Event = Begin
	if err := errors.Join(j.Append(begin), durable.SyncDir(dir)); err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

// Reopen continues the journal of the transaction to generation to. A last line
// that a crash cut short is dropped: whatever it announced had not begun.
func Reopen(dir string, to int, now func() time.Time) (*Journal, []Record, error) {
	records, whole, err := read(path(dir, to))
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path(dir, to), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("reopen the journal: %w", err)
	}
	if err := f.Truncate(whole); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("reopen the journal: %w", err)
	}
	return &Journal{file: f, now: now, count: len(records), whole: whole}, records, nil
}

// Append adds a record and returns once it is on stable storage. If it cannot be
// written, on a full disk say, nothing of it stays: the next record would follow
// on half a line, and recovery must not take a step for done that nobody heard
// was written.
func (j *Journal) Append(r Record) error {
	r.Time = j.now().UTC()
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("journal %s %s: %w", r.Event, r.Step, err)
	}
	line = append(line, '\n')
	_, err = j.file.Write(line)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("journal %s %s: %w", r.Event, r.Step, err), j.file.Truncate(j.whole))
	}
	j.whole += int64(len(line))
	j.count++
	fault(j.count)
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// Read returns the records of the transaction to generation to.
func Read(dir string, to int) ([]Record, error) {
	records, _, err := read(path(dir, to))
	return records, err
}

// List returns the generations whose transactions have a journal, in order.
func List(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	var numbers []int
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimSuffix(e.Name(), ".jsonl"))
		if err == nil && n > 0 && e.Name() == filepath.Base(path(dir, n)) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// Ended reports whether a transaction needs nothing more.
func Ended(records []Record) bool {
	return len(records) > 0 && records[len(records)-1].Event == End
}

// HasCommitted reports whether a transaction passed its point of no return.
func HasCommitted(records []Record) bool {
	return slices.ContainsFunc(records, func(r Record) bool { return r.Event == Commit })
}

func path(dir string, to int) string {
	return filepath.Join(dir, fmt.Sprintf("%06d.jsonl", to))
}

// read returns the records of a journal and how many bytes of it are whole lines.
func read(path string) ([]Record, int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, fmt.Errorf("read the journal: %w", err)
	}
	records, whole, err := parse(data)
	if err != nil {
		return nil, 0, fmt.Errorf("%s:%w", path, err)
	}
	return records, whole, nil
}

func parse(data []byte) ([]Record, int64, error) {
	var records []Record
	var whole int64
	in := bufio.NewReader(bytes.NewReader(data))
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, whole, nil
		}
		var r Record
		err = json.Unmarshal(line, &r)
		if err == nil && !fits(r, len(records)) {
			err = errors.New("no record of a journal, or not the first")
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%d: damaged record (%w); move the file aside once the node has been looked at", len(records)+1, err)
		}
		records = append(records, r)
		whole += int64(len(line))
	}
}

// fits reports whether a record can stand behind so many others. A journal that
// a crash left empty has but an end.
func fits(r Record, before int) bool {
	if before == 0 {
		return r.Event == Begin && r.To > 0 || r.Event == End
	}
	return r.Event != "" && r.Event != Begin
}
