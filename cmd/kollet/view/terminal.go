package view

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/kollet/kollet/agent/node"
)

// terminalProgress shows progress on a terminal: one line per step, marked when it
// is done, and below it one bar per image that is being pulled.
type terminalProgress struct {
	w      *os.File
	colour bool
	marks  map[node.EventKind]string
	step   string // the step whose line is unfinished
	bars   *mpb.Progress
	pulls  map[string]*mpb.Bar // by service
}

// eraseLine moves to the start of the line and erases it (ECMA-48, EL).
const eraseLine = "\r\x1b[K"

func newTerminalProgress(w *os.File, colour, unicode bool) *terminalProgress {
	l := &terminalProgress{w: w, colour: colour, marks: map[node.EventKind]string{
		node.StepBegins: ".", node.StepEnds: "ok", node.StepFails: "failed:",
	}}
	if unicode {
		l.marks = map[node.EventKind]string{node.StepBegins: "…", node.StepEnds: "✓", node.StepFails: "✗"}
	}
	return l
}

func (l *terminalProgress) write(s string) {
	_, _ = io.WriteString(l.w, s) // failing to show progress is not an error
}

func (l *terminalProgress) event(e node.Event) {
	switch e.Kind {
	case node.StepBegins:
		l.finish(node.StepEnds, green, "")
		l.step = e.Step
		l.resume()
	case node.StepEnds:
		l.step = e.Step
		l.finish(node.StepEnds, green, stepDuration(e.Text))
	case node.StepFails:
		l.step = e.Step
		l.finish(node.StepFails, red, "")
	case node.Pulling:
		l.pull(e)
	case node.Note:
		l.say(note(e))
	}
}

// resume shows the running step.
func (l *terminalProgress) resume() {
	if l.step != "" && l.bars == nil {
		l.write(l.marks[node.StepBegins] + " " + l.step)
	}
}

// finish ends the line of the running step.
func (l *terminalProgress) finish(how node.EventKind, colour, took string) {
	l.dropBars()
	if l.step == "" {
		return
	}
	line := paint(l.colour, colour, l.marks[how]) + " " + l.step
	if took != "" {
		line += "  " + took
	}
	l.write(eraseLine + line + "\n")
	l.step = ""
}

func (l *terminalProgress) say(line string) {
	if l.bars != nil {
		_, _ = fmt.Fprintln(l.bars, line) // above the bars
		return
	}
	l.write(eraseLine + line + "\n")
	l.resume()
}

func (l *terminalProgress) close() {
	l.dropBars()
	if l.step != "" {
		l.write(eraseLine)
		l.step = ""
	}
}

func (l *terminalProgress) pull(e node.Event) {
	if l.bars == nil {
		l.write(eraseLine)
		l.bars = mpb.New(mpb.WithOutput(l.w), mpb.WithWidth(40), mpb.WithRefreshRate(200*time.Millisecond))
		l.pulls = map[string]*mpb.Bar{}
	}
	bar, ok := l.pulls[e.Service]
	if !ok {
		bar = l.bars.AddBar(0,
			mpb.PrependDecorators(decor.Name("pull "+e.Service, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace)))
		l.pulls[e.Service] = bar
	}
	bar.SetTotal(e.Total, false)
	bar.SetCurrent(min(e.Done, e.Total))
}

// dropBars removes the bars; the step's line shows the result.
func (l *terminalProgress) dropBars() {
	if l.bars == nil {
		return
	}
	for _, bar := range l.pulls {
		bar.Abort(true)
	}
	l.bars.Wait()
	l.bars, l.pulls = nil, nil
	l.write(eraseLine)
}
