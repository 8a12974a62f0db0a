package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/kollet/kollet/agent/node"
)

// progress shows what goes on. Nothing may be called after close.
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

// lineProgress shows progress where lines stay: in a log, or through a pipe.
type lineProgress struct {
	w     io.Writer
	shown map[string]int64 // service: quarters of its pull that were told of
}

func (l *lineProgress) close() {}

func (l *lineProgress) say(line string) {
	_, _ = io.WriteString(l.w, line+"\n") // progress that cannot be shown is no failure
}

func (l *lineProgress) event(e node.Event) {
	switch e.Kind {
	case node.StepBegins:
		l.say(e.Step + ": begins")
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

// pull tells of a pull at each quarter. Totals grow while the engine learns of
// layers, so a quarter may come twice; it is told of once.
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

// note is the line of a Note. Of a long one the rest is shown with the error
// that ends the command.
func note(e node.Event) string {
	first, _, _ := strings.Cut(clean(e.Text), "\n")
	if e.Service != "" {
		return e.Service + ": " + first
	}
	return first
}

// stepDuration shortens what the agent says a step took.
func stepDuration(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return clean(text)
	}
	return shortDuration(d)
}
