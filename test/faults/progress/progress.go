// Package progress records the attempts that make chaos has finished, one JSON line for each,
// so that a later run continues where another one ended. A line is on stable storage before
// the next attempt begins: an interruption loses the attempts that were under way.
package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Attempt is one that was finished.
type Attempt struct {
	Suite    string   `json:"suite"`
	Engine   string   `json:"engine"`
	Node     int      `json:"node"` // of those that are attacked at once
	Scenario string   `json:"scenario"`
	Strikes  []Strike `json:"strikes"`
	Hits     int      `json:"hits"`           // how many of the strikes happened
	Call     string   `json:"call,omitempty"` // at which the last one happened
	Status   int      `json:"status"`         // exit status of the last command; -1: killed
	End      string   `json:"end,omitempty"`  // the version on which the node ended: old or new
	Failed   string   `json:"failed,omitempty"`
	Calls    []string `json:"calls,omitempty"` // of an attempt without a fault, which counts them
	Next     []Strike `json:"next,omitempty"`  // in the recovery, each of them for another attempt
	First    float64  `json:"first"`           // seconds that the first command took
	Seconds  float64  `json:"seconds"`         // that all took
	Program
}

// Strike is a fault at one call of a command.
type Strike struct {
	Fault   string `json:"fault"`
	Lasting bool   `json:"lasting,omitempty"`
	At      int    `json:"at"`
}

// Program is the kollet that was attacked.
type Program struct {
	Version string `json:"kollet"`
	Sum     string `json:"sum"` // the beginning of the file's SHA-256
}

// File is a progress file, which one run uses at a time.
type File struct {
	program  Program
	attempts []Attempt

	mutex sync.Mutex
	file  *os.File
}

// Open opens a progress file, or creates it. A last line that is not whole, which a power loss
// leaves, is removed. Attempts with another program are an error, unless it is continued.
func Open(path string, p Program, continued bool) (*File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the progress file: %w", err)
	}
	f := &File{program: p, file: file}
	if err := f.read(continued); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return f, nil
}

func (f *File) read(continued bool) error {
	if err := unix.Flock(int(f.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("another run uses it: %w", err)
	}
	text, err := io.ReadAll(f.file)
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	if err := f.file.Truncate(int64(len(whole))); err != nil {
		return fmt.Errorf("remove a line that is not whole: %w", err)
	}
	number := 0
	for line := range bytes.Lines(whole) {
		number++
		var a Attempt
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("line %d: %w; remove the line to make its attempt again", number, err)
		}
		if a.Program != f.program && !continued {
			return fmt.Errorf("line %d is about kollet %s (%s), and this is %s (%s): use another file, or CHAOS_CONTINUE=yes if what changed does not matter",
				number, a.Version, a.Sum, f.program.Version, f.program.Sum)
		}
		f.attempts = append(f.attempts, a)
	}
	// The file itself has to survive a power loss, too.
	dir, err := os.Open(filepath.Dir(f.file.Name()))
	if err != nil {
		return err
	}
	defer dir.Close()
	return errors.Join(f.file.Sync(), dir.Sync())
}

// Of returns the attempts of a suite on an engine that were recorded when the file was opened.
// A nil file has none.
func (f *File) Of(suite, engine string) []Attempt {
	if f == nil {
		return nil
	}
	var of []Attempt
	for _, a := range f.attempts {
		if a.Suite == suite && a.Engine == engine {
			of = append(of, a)
		}
	}
	return of
}

// Add records an attempt with the present program. A nil file records nothing.
func (f *File) Add(a Attempt) error {
	if f == nil {
		return nil
	}
	a.Program = f.program
	line, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("record an attempt: %w", err)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if _, err := f.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("record an attempt: %w", err)
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("record an attempt: %w", err)
	}
	return nil
}

// Close lets another run use the file.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	return f.file.Close()
}
