package view

import (
	"bytes"
	"io"
	"time"

	"github.com/kollet/kollet/agent/node"
)

// timestamped writes the time before each line.
type timestamped struct {
	w   io.Writer
	now func() time.Time
}

func (s timestamped) Write(text []byte) (int, error) {
	at := s.now().UTC().Format(time.RFC3339)
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		b.WriteString(at + " ")
		b.Write(line)
	}
	if _, err := s.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// tee shows progress in two places. If one blocks, the other continues.
type tee [2]progress

func (t tee) event(e node.Event) {
	for _, p := range t {
		p.event(e)
	}
}

func (t tee) say(line string) {
	for _, p := range t {
		p.say(line)
	}
}

func (t tee) close() {
	for _, p := range t {
		p.close()
	}
}

// logProgress shows progress as lines with their time, in the log and on standard
// output, or on standard error if standard output is for a program.
func (s Screen) logProgress() progress {
	log := newQueue(&lineProgress{w: timestamped{s.Log, s.Now}, shown: map[string]int64{}})
	if s.Quiet {
		return log
	}
	w := s.Out
	if s.Format == JSON || s.Format == YAML {
		w = s.Err
	}
	return tee{log, newQueue(&lineProgress{w: timestamped{w, s.Now}, shown: map[string]int64{}})}
}
