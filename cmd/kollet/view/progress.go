package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/kollet/kollet/agent/node"
)

// progress shows what a command is doing. No method may be called after close.
type progress interface {
	event(node.Event)
	say(line string)
	close()
}

func (s Screen) progress() progress {
	if s.Log != nil {
		return s.logProgress()
	}
	if s.Quiet {
		return noProgress{}
	}
	f, ok := terminal(s.Err)
	if !ok || s.Getenv("TERM") == "dumb" || s.Getenv("TERM") == "" {
		return newQueue(&lineProgress{w: s.Err, shown: map[string]int64{}})
	}
	return newQueue(newTerminalProgress(f, s.colour(f), s.unicode()))
}

// noProgress shows nothing.
type noProgress struct{}

func (noProgress) event(node.Event) {}
func (noProgress) say(string)       {}
func (noProgress) close()           {}

// lineProgress shows progress as lines, for logs and pipes.
type lineProgress struct {
	w     io.Writer
	shown map[string]int64 // service: reported quarters of its pull
}

func (l *lineProgress) close() {}

func (l *lineProgress) say(line string) {
	_, _ = io.WriteString(l.w, line+"\n") // progress that cannot be shown is not a failure
}

func (l *lineProgress) event(e node.Event) {
	switch e.Kind {
	case node.StepBegins:
		l.say(e.Step + ": started")
	case node.StepEnds:
		l.say(e.Step + ": done in " + stepDuration(e.Text))
	case node.StepFails:
		l.say(e.Step + ": failed")
	case node.Pulling:
		l.pull(e)
	case node.Note:
		l.say(note(e))
	}
}

// pull reports each quarter of a pull. Totals grow while the engine discovers
// layers, so that a quarter may be reached twice; it is reported once.
func (l *lineProgress) pull(e node.Event) {
	if e.Total <= 0 {
		return
	}
	quarter := e.Done * 4 / e.Total
	if quarter <= l.shown[e.Service] {
		return
	}
	l.shown[e.Service] = quarter
	l.say(fmt.Sprintf("pull %s: %d%% of %s", e.Service, quarter*25, units.BytesSize(float64(e.Total))))
}

// note is the first line of a Note. The rest is shown with the error that ends the
// command.
func note(e node.Event) string {
	first, _, _ := strings.Cut(clean(e.Text), "\n")
	if e.Service != "" {
		return e.Service + ": " + first
	}
	return first
}

// stepDuration shortens the duration of a step.
func stepDuration(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return clean(text)
	}
	return shortDuration(d)
}
