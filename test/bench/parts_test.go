package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// parts of a gap, in order, in milliseconds. A container waits at its gate, while a
// bare process is created only after the old one exited: that is where they
// differ.
type parts struct {
	Asked  float64 `json:"last_answer_to_signal_ms"` // the client's own pause; negative if the old process still answered
	End    float64 `json:"signal_to_end_ms"`         // the old process exits
	Hand   float64 `json:"end_to_exec_ms"`           // the exit is noticed, and the new program is executed
	Start  float64 `json:"exec_to_answer_ms"`        // the new program starts
	Total  float64 `json:"gap_ms"`
	Waited float64 `json:"gate_to_exec_ms"` // of Hand: kollet-start's own; 0 without a gate
}

// moments of one replacement.
type moments struct {
	lastAnswer, signal, end, opened, exec, firstAnswer time.Time // opened: the gate; zero without one
}

func (m moments) parts() parts {
	between := func(from, to time.Time) float64 { return ms(to.Sub(from)) }
	p := parts{
		Asked: between(m.lastAnswer, m.signal), End: between(m.signal, m.end), Hand: between(m.end, m.exec),
		Start: between(m.exec, m.firstAnswer), Total: between(m.lastAnswer, m.firstAnswer),
	}
	if !m.opened.IsZero() {
		p.Waited = between(m.opened, m.exec)
	}
	return p
}

// startComm is what the kernel calls kollet-start: the name of its file.
const startComm = "start"

// findMoments looks a replacement up in a trace. comm is what the kernel calls
// the service, and program the end of its path.
func findMoments(events []traceEvent, last, first answer, comm, program string) (moments, error) {
	m := moments{lastAnswer: last.at, firstAnswer: first.at}
	var pid, thread string // of the new process, the latter as it was until the execution
	for _, e := range events {
		if e.at.After(first.at) {
			break
		}
		switch {
		case e.name == "signal_generate" && e.fields["sig"] == "15" && e.fields["comm"] == comm && m.end.IsZero():
			m.signal = e.at
		case e.name == "sched_process_exit" && e.fields["comm"] == comm && !m.signal.IsZero() && m.exec.IsZero():
			m.end = e.at // of the last of its threads
		case e.name == "sched_process_exec" && strings.HasSuffix(e.fields["filename"], program) && !m.end.IsZero():
			m.exec, pid, thread = e.at, e.fields["pid"], e.fields["old_pid"]
		}
	}
	for _, e := range events { // other kollet processes may run on the machine
		if e.name == "sched_waking" && e.by == "kollet" && (e.fields["pid"] == pid || e.fields["pid"] == thread) &&
			!e.at.Before(m.end) && e.at.Before(m.exec) {
			m.opened = e.at
		}
	}
	for what, at := range map[string]time.Time{"signal": m.signal, "end": m.end, "execution": m.exec} {
		if at.IsZero() {
			return m, fmt.Errorf("the trace of %d events has no %s of %s between two answers %v apart", len(events), what, comm, first.at.Sub(last.at))
		}
	}
	return m, nil
}

// medianParts is part by part: together they need not be the median gap.
func medianParts(all []parts) parts {
	of := func(field func(parts) float64) float64 {
		var values []float64
		for _, p := range all {
			values = append(values, field(p))
		}
		return spreadOf(values).Median
	}
	return parts{
		Asked: of(func(p parts) float64 { return p.Asked }), End: of(func(p parts) float64 { return p.End }),
		Hand: of(func(p parts) float64 { return p.Hand }), Start: of(func(p parts) float64 { return p.Start }),
		Total: of(func(p parts) float64 { return p.Total }), Waited: of(func(p parts) float64 { return p.Waited }),
	}
}

// partsTable shows what the gaps of several ways are made of.
func partsTable(ways []string, all map[string]parts) string {
	var t strings.Builder
	fmt.Fprintf(&t, "| median ms | %s |\n|---|%s\n", strings.Join(ways, " | "), strings.Repeat("---|", len(ways)))
	for _, row := range []struct {
		name string
		of   func(parts) float64
	}{
		{"last answer to stop signal (the client's pause)", func(p parts) float64 { return p.Asked }},
		{"stop signal to the old process's end", func(p parts) float64 { return p.End }},
		{"its end to the new program's execution", func(p parts) float64 { return p.Hand }},
		{"of that, kollet-start's own", func(p parts) float64 { return p.Waited }},
		{"execution to the first answer", func(p parts) float64 { return p.Start }},
		{"gap", func(p parts) float64 { return p.Total }},
	} {
		fmt.Fprintf(&t, "| %s |", row.name)
		for _, way := range ways {
			fmt.Fprintf(&t, " %.1f |", row.of(all[way]))
		}
		t.WriteString("\n")
	}
	return t.String()
}

func TestFindMoments(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1000 + ms)) }
	event := func(ms int, name string, fields ...string) traceEvent {
		e := traceEvent{at: at(ms), by: "kollet", name: name, fields: map[string]string{}}
		for i := 0; i < len(fields); i += 2 {
			e.fields[fields[i]] = fields[i+1]
		}
		return e
	}
	events := []traceEvent{
		event(-50, "signal_generate", "sig", "15", "comm", "other"),
		event(1, "signal_generate", "sig", "15", "comm", "tiny"),
		event(2, "sched_process_exit", "comm", "tiny"),
		event(4, "sched_waking", "comm", "start", "pid", "4"),
		event(3, "sched_process_exit", "comm", "tiny"),
		event(5, "sched_waking", "comm", "start", "pid", "5"),
		event(6, "sched_process_exec", "filename", "/bin/tiny", "pid", "5", "old_pid", "5"),
		event(9, "sched_process_exit", "comm", "tiny"), // a thread of the new one
	}
	m, err := findMoments(events, answer{at(0), 7}, answer{at(10), 8}, "tiny", "/tiny")
	if want := (parts{Asked: 1, End: 2, Hand: 3, Start: 4, Total: 10, Waited: 1}); err != nil || m.parts() != want {
		t.Errorf("%+v, %v, want %+v", m.parts(), err, want)
	}
	for cut := range events[1:] {
		if _, err := findMoments(slices.Delete(slices.Clone(events), cut+1, len(events)), answer{at(0), 7}, answer{at(10), 8}, "tiny", "/tiny"); (err == nil) != (cut+1 > 6) {
			t.Errorf("of the first %d events: %v", cut+1, err)
		}
	}
}
