package view

import (
	"bytes"
	"io"
	"time"

	"github.com/kollet/kollet/agent/node"
)

// stamped puts the time before each line.
type stamped struct {
	w   io.Writer
	now func() time.Time
}

func (s stamped) Write(text []byte) (int, error) {
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

// both shows progress in two places; that one is stuck does not hold up the
// other.
type both [2]progress

func (b both) event(e node.Event) {
	for _, p := range b {
		p.event(e)
	}
}

func (b both) say(line string) {
	for _, p := range b {
		p.say(line)
	}
}

func (b both) close() {
	for _, p := range b {
		p.close()
	}
}

// record is progress for a log and for who reads along: lines with their time,
// on standard output unless a program reads that.
func (s Screen) record() progress {
	log := newQueue(&lines{w: stamped{s.Log, s.Now}, shown: map[string]int64{}})
	if s.Quiet {
		return log
	}
	w := s.Out
	if s.Format == JSON || s.Format == YAML {
		w = s.Err
	}
	return both{log, newQueue(&lines{w: stamped{w, s.Now}, shown: map[string]int64{}})}
}
