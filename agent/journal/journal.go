// Package journal records an upgrade as it happens: each step before it starts
// and after it ended, the commit, and the outcome. A record is on stable storage
// before Append returns, so recovery needs nothing but the journal.
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
	"github.com/kollet/kollet/agent/wary"
)

// Journal is the journal of one transaction, open for appending.
type Journal struct {
	dir      string
	file     *os.File
	version  string // of this kollet
	now      func() time.Time
	count    int   // records in the file
	whole    int64 // size of these records in bytes
	reserved bool  // there may be space reserved for a rollback
	ended    bool
}

// Create starts the journal of the transaction to generation begin.To, which must
// not have one. begin.Version is the version of this kollet. If it fails, it leaves no
// journal: nothing has begun that would have to end.
func Create(dir string, begin Record, now func() time.Time) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the journal directory: %w", durable.Explain(err))
	}
	f, err := os.OpenFile(path(dir, begin.To), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the journal: %w", durable.Explain(err))
	}
	j := &Journal{dir: dir, file: f, version: begin.Version, now: now}
	begin.Event = Begin
	err = j.Append(begin)
	if err == nil {
		err = durable.Explain(durable.SyncDir(dir))
	}
	if err != nil {
		return nil, errors.Join(err, j.remove())
	}
	return j, nil
}

// remove closes the journal and removes its file.
func (j *Journal) remove() error {
	return errors.Join(j.file.Close(), os.Remove(j.file.Name()))
}

// Reopen opens the journal of the transaction to generation to for appending, and
// returns its records. An incomplete last line is removed: a crash interrupted
// Append, so what the line announces has not started. version is the version of
// this kollet. If the journal has content that this kollet does not know, the
// error is a *format.UnknownError and the journal is not changed.
func Reopen(dir string, to int, version string, now func() time.Time) (*Journal, []Record, error) {
	records, whole, err := read(path(dir, to))
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path(dir, to), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("reopen the journal: %w", durable.Explain(err))
	}
	if err := cutTo(f, whole); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("reopen the journal: %w", durable.Explain(err))
	}
	return &Journal{dir: dir, file: f, version: version, now: now, count: len(records), whole: whole, reserved: true}, records, nil
}

// cutTo removes what is behind a size. A file of that size is left alone, because
// ftruncate(2) would free the space that is reserved behind it.
func cutTo(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() == size {
		return err
	}
	return f.Truncate(size)
}

// Append adds a record with the current time and returns once it is on stable
// storage. If it fails, for example because the disk is full, it removes what it
// wrote: the next record must start on a new line, and recovery must not find a
// record that Append reported as failed.
func (j *Journal) Append(r Record) error {
	r.Time = j.now().UTC()
	if j.count == 0 {
		r.Format, r.Version = Format, j.version
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%s: %w", r.recording(), err)
	}
	line = append(line, '\n')
	err = cutTo(j.file, j.whole) // what a failed Append could not remove
	if err == nil {
		_, err = j.file.Write(line)
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", r.recording(), durable.Explain(err)), cutTo(j.file, j.whole))
	}
	j.whole += int64(len(line))
	j.count++
	j.ended = r.Event == End
	fault(j.count)
	return nil
}

// End records the outcome. A journal without any record, as a power loss leaves one, says
// as little as none: if the disk is full, it is removed instead, so that it is in nobody's
// way who frees space.
func (j *Journal) End(outcome Outcome) error {
	err := j.Append(Record{Event: End, Outcome: outcome})
	if err != nil && j.count == 0 && os.Remove(j.file.Name()) == nil {
		return nil
	}
	return err
}

// Close closes the file. The journal does not have to have ended; if it has, nothing
// stays reserved.
func (j *Journal) Close() error {
	var err error
	if j.reserved && j.ended {
		err = errors.Join(j.file.Truncate(j.whole), j.Release())
	}
	return errors.Join(err, j.file.Close())
}

// Read returns the records of the transaction to generation to. If the journal has
// content that this kollet does not know, the error is a *format.UnknownError.
func Read(dir string, to int) ([]Record, error) {
	records, _, err := read(path(dir, to))
	return records, err
}

// List returns the numbers of the generations whose transactions have a journal,
// in order.
func List(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list journals: %w", durable.Explain(err))
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

// Ended reports whether a transaction has ended. If not, it has to be recovered.
func Ended(records []Record) bool {
	return len(records) > 0 && records[len(records)-1].Event == End
}

// HasCommitted reports whether a transaction committed. If so, recovery finishes
// it; otherwise, recovery undoes it.
func HasCommitted(records []Record) bool {
	return slices.ContainsFunc(records, func(r Record) bool { return r.Event == Commit })
}

func path(dir string, to int) string {
	return filepath.Join(dir, fmt.Sprintf("%06d.jsonl", to))
}

// mostRead is how large a journal may be. That of an upgrade has some kilobytes, and each
// recovery that fails adds a few.
const mostRead = 64 << 20

// ofDamaged is what to do about a journal that makes no sense.
const ofDamaged = "move the file out of its directory, see with `kollet verify` what differs, then let `kollet upgrade` repair it"

// read returns the records of a journal and the size of its complete lines.
func read(path string) ([]Record, int64, error) {
	data, err := wary.ReadFile(path, mostRead)
	if wary.Unfit(err) {
		return nil, 0, &format.DamagedError{Err: fmt.Errorf("read the journal: %w; %s", err, ofDamaged)}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the journal: %w", durable.Explain(err))
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
			err = fmt.Errorf("%s:%d: damaged record (%w); %s", path, number, err, ofDamaged)
			return nil, 0, &format.DamagedError{Err: err}
		}
		records = append(records, r)
		if unknown != "" {
			return nil, 0, &format.UnknownError{File: path, Line: number, What: unknown, Step: lastStep(data), Writer: records[0].Version}
		}
		whole += int64(len(line))
	}
}
