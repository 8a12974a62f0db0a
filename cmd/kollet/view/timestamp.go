package view

import (
	"bytes"
	"io"
	"time"

	"github.com/kollet/kollet/agent/node"
)

// timestamped puts the time before each line.
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

// tee shows progress in two places; that one is stuck does not hold up the
// other.
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

// logProgress is progress for a log and for who reads along: lines with their time,
// on standard output unless a program reads that.
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
