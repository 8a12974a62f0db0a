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
	"github.com/kollet/kollet/agent/format"
)

// Journal is the journal of one transaction, open for appending.
type Journal struct {
	file    *os.File
	version string // of this kollet
	now     func() time.Time
	count   int
	whole   int64 // bytes of whole records
}

// Create starts the journal of the transaction that leads to generation begin.To.
// begin.Version is the version of this kollet.
func Create(dir string, begin Record, now func() time.Time) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the journal directory: %w", err)
	}
	f, err := os.OpenFile(path(dir, begin.To), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start the journal: %w", err)
	}
	j := &Journal{file: f, version: begin.Version, now: now}
	begin.Event = Begin
	if err := errors.Join(j.Append(begin), durable.SyncDir(dir)); err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

// Reopen continues the journal of the transaction to generation to. A last line
// that a crash cut short is dropped: whatever it announced had not begun. version
// is that of this kollet. A journal with anything that this kollet does not know
// is not opened: the error is a *format.UnknownError.
func Reopen(dir string, to int, version string, now func() time.Time) (*Journal, []Record, error) {
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
	return &Journal{file: f, version: version, now: now, count: len(records), whole: whole}, records, nil
}

// Append adds a record and returns once it is on stable storage. If it cannot be
// written, on a full disk say, nothing of it stays: the next record would follow
// on half a line, and recovery must not take a step for done that nobody heard
// was written.
func (j *Journal) Append(r Record) error {
	r.Time = j.now().UTC()
	if j.count == 0 {
		r.Format, r.Version = Format, j.version
	}
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

// Read returns the records of the transaction to generation to. If it has
// anything that this kollet does not know, the error is a *format.UnknownError.
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
	return parse(path, data)
}

func parse(path string, data []byte) ([]Record, int64, error) {
	var records []Record
	var whole int64
	in := bufio.NewReader(bytes.NewReader(data))
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, whole, nil
		}
		number := len(records) + 1
		r, unknown, err := decode(line, number == 1)
		if err != nil {
			return nil, 0, fmt.Errorf("%s:%d: damaged record (%w); move the file aside once the node has been looked at", path, number, err)
		}
		records = append(records, r)
		if unknown != "" {
			return nil, 0, &format.UnknownError{File: path, Line: number, What: unknown, Step: lastStep(data), Writer: records[0].Version}
		}
		whole += int64(len(line))
	}
}
