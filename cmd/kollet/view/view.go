// Package view prints results, progress and errors, for people or for programs. It
// is the only package that prints: results go to standard output, progress and
// errors to standard error. It receives only what the agent returns, which has
// redacted all secrets.
package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kollet/kollet/agent/node"
)

// Printer shows one command's result, progress and failure.
type Printer interface {
	// Show writes a result to standard output. It returns only write errors.
	Show(View) error
	// Fail writes an error to standard error. In formats for programs it also
	// writes a document with the error, the exit status and the result to
	// standard output. result may be nil.
	Fail(err error, exit int, result View)
	// Progress shows an event.
	Progress(node.Event)
	// Say writes a line of progress.
	Say(line string)
	// Close ends the progress: after it only Show and Fail write.
	Close()
}

// View is a result that can be shown. Formats for programs use its JSON form.
type View interface{ text(*text) }

// Format is an output format. The zero value is Table.
type Format string

// Formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats lists all formats in the order of the help.
var Formats = []string{string(Table), string(JSON), string(YAML)}

// String, Set and Type make a Format a flag.
func (f *Format) String() string {
	if *f == "" {
		return string(Table)
	}
	return string(*f)
}

// Set is called with the flag's value.
func (f *Format) Set(value string) error {
	if !slices.Contains(Formats, value) {
		return fmt.Errorf("expected one of %s", strings.Join(Formats, ", "))
	}
	*f = Format(value)
	return nil
}

// Type is shown in the flag's help.
func (f *Format) Type() string { return strings.Join(Formats, "|") }

// Screen is where and how to print.
type Screen struct {
	Out, Err io.Writer
	Format   Format
	Quiet    bool                // no progress
	Getenv   func(string) string // for NO_COLOR, TERM and the locale
	Now      func() time.Time    // for ages
	Log      io.Writer           // if set, progress is written as lines with their time, here too
}

// New returns the printer for a screen.
func New(s Screen) Printer {
	p := &printer{screen: s, progress: s.progress()}
	switch s.Format {
	case JSON:
		return &document{printer: p, encode: toJSON}
	case YAML:
		return &document{printer: p, encode: toYAML}
	default:
		return &table{p}
	}
}

// printer is common to all formats.
type printer struct {
	screen Screen

	mutex    sync.Mutex // signal handlers call Say while the agent reports
	progress progress
}

func (p *printer) Progress(e node.Event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.progress.event(e)
}

func (p *printer) Say(line string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.progress.say(clean(line))
}

func (p *printer) Close() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.progress.close()
	p.progress = noProgress{}
}

// printError writes an error to standard error, one problem per line. Indented
// lines belong to the line before them.
func (p *printer) printError(err error) {
	p.Close()
	var b strings.Builder
	for line := range strings.Lines(clean(err.Error())) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "":
			continue
		case strings.HasPrefix(line, " "):
			b.WriteString(line)
		default:
			b.WriteString("kollet: " + line)
		}
		b.WriteByte('\n')
	}
	_, _ = io.WriteString(p.screen.Err, b.String()) // an error here cannot be reported
	if p.screen.Log != nil {
		_, _ = io.WriteString(timestamped{p.screen.Log, p.screen.Now}, b.String())
	}
}

// table prints for people.
type table struct{ *printer }

func (p *table) Show(v View) error {
	p.Close()
	_, tty := terminal(p.screen.Out)
	t := text{colour: p.screen.colour(p.screen.Out), terminal: tty, now: p.screen.Now()}
	v.text(&t)
	if _, err := p.screen.Out.Write(t.Bytes()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

func (p *table) Fail(err error, _ int, _ View) { p.printError(err) }
