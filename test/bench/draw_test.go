package bench

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/kollet/kollet/agent/journal"
)

// phase is a part of an upgrade, from its journal.
type phase struct {
	name     string
	from, to time.Time
}

func (p phase) ms() float64 { return ms(p.to.Sub(p.from)) }

// phases of an upgrade, from its process's start to its end.
func (u upgradeTrace) phases() []phase {
	var all []phase
	at := u.started
	for _, r := range u.records {
		var name string
		switch r.Event {
		case journal.Begin:
			name = "start, lock, plan"
		case journal.Done:
			name = journal.Step{Kind: r.Step.Kind}.String() // all cut overs together
		case journal.Commit:
			name = "commit"
		case journal.End:
			name = "tidy"
		default:
			continue
		}
		all = append(all, phase{name, at, r.Time})
		at = r.Time
	}
	return append(all, phase{"exit", at, u.ended})
}

// draw shows the whole upgrade, step by step, and below it the gap in detail: its
// parts, and what ran on each processor.
func (u upgradeTrace) draw(engine string) ([]byte, error) {
	whole, err := u.drawSteps(engine)
	if err != nil {
		return nil, err
	}
	gap, err := u.drawGap()
	if err != nil {
		return nil, err
	}
	return svgOf(30*vg.Centimeter, 20*vg.Centimeter, [][]*plot.Plot{{whole}, {gap}})
}

func (u upgradeTrace) drawSteps(engine string) (*plot.Plot, error) {
	p := newPlot()
	p.Title.Text = fmt.Sprintf("One upgrade of one service on %s, images present: %.0f ms; the service was away for %.1f ms",
		engine, ms(u.ended.Sub(u.started)), u.moments.parts().Total)
	p.X.Label.Text = "ms"
	since := func(at time.Time) float64 { return ms(at.Sub(u.started)) }
	phases := u.phases()
	rows := float64(len(phases))
	away := bar{from: since(u.moments.lastAnswer), to: since(u.moments.firstAnswer), low: -0.5, high: rows - 0.5, colour: "#f4c7c3"}
	bars := []bar{away}
	var names []string
	for i, phase := range phases {
		row := rows - 1 - float64(i)
		bars = append(bars, bar{from: since(phase.from), to: since(phase.to), low: row - 0.35, high: row + 0.35, colour: "#4a7ab5"})
		names = append([]string{fmt.Sprintf("%s, %.1f ms", phase.name, phase.ms())}, names...)
	}
	p.NominalY(names...)
	for _, b := range bars {
		if err := b.addTo(p, ""); err != nil {
			return nil, err
		}
	}
	p.X.Max = since(u.ended) * 1.15 // room for the legend
	return p, away.explain(p, "service away")
}

func (u upgradeTrace) drawGap() (*plot.Plot, error) {
	p := newPlot()
	p.X.Label.Text = "ms since the last answer of the old process"
	m := u.moments
	since := func(at time.Time) float64 { return ms(at.Sub(m.lastAnswer)) }
	cpus := runsOf(u.events, m.lastAnswer, m.firstAnswer)
	var names []string
	for cpu := range slices.Backward(cpus) {
		names = append(names, fmt.Sprintf("processor %d", cpu))
	}
	p.NominalY(append(names, "away because of")...)
	for i, part := range []phase{
		{"client's pause", m.lastAnswer, m.signal}, {"old process exits", m.signal, m.end}, {"kollet opens the gate", m.end, m.opened},
		{"kollet-start executes", m.opened, m.exec}, {"new process starts", m.exec, m.firstAnswer},
	} {
		colour := []string{"#bbbbbb", "#e59866", "#4a7ab5", "#7fb3d5", "#76b583"}[i]
		row := float64(len(cpus))
		b := bar{from: since(part.from), to: since(part.to), low: row - 0.35, high: row + 0.35, colour: colour}
		if err := b.addTo(p, fmt.Sprintf("%s: %.1f ms", part.name, part.ms())); err != nil {
			return nil, err
		}
	}
	shown := map[string]bool{}
	for cpu, runs := range cpus {
		row := float64(len(cpus) - 1 - cpu)
		for _, r := range runs {
			kind := kinds[kindOf(r.name)]
			name := kind.shown()
			if shown[name] {
				name = ""
			} else {
				shown[name] = true
			}
			b := bar{from: since(r.from), to: since(r.to), low: row - 0.35, high: row + 0.35, colour: kind.colour}
			if err := b.addTo(p, name); err != nil {
				return nil, err
			}
		}
	}
	p.Legend.Top = true
	p.X.Max = since(m.firstAnswer) * 1.4 // room for the legend
	return p, nil
}

// text lists what the picture shows of the gap.
func (u upgradeTrace) text() string {
	var t strings.Builder
	for _, p := range u.phases() {
		fmt.Fprintf(&t, "%8.1f ms %s\n", p.ms(), p.name)
	}
	fmt.Fprintf(&t, "%+v\n", u.moments.parts())
	for cpu, runs := range runsOf(u.events, u.moments.lastAnswer, u.moments.firstAnswer) {
		for _, r := range runs {
			fmt.Fprintf(&t, "processor %d %8.3f %8.3f %s\n", cpu, ms(r.from.Sub(u.moments.lastAnswer)), ms(r.to.Sub(u.moments.lastAnswer)), r.name)
		}
	}
	return t.String()
}

// kind is a kind of process that runs during a gap.
type kind struct{ name, colour string }

var kinds = []kind{
	{benched, "#76b583"}, {startComm, "#7fb3d5"}, {"kollet", "#4a7ab5"}, {"bench.test", "#bbbbbb"},
	{"containerd-shim", "#c39bd3"}, {"containerd", "#a569bd"}, {"dockerd", "#f1c40f"}, {"runc", "#cb4335"}, {"others", "#e5e7e9"},
}

func kindOf(comm string) int {
	for i, k := range kinds {
		if comm == k.name || k.name == "containerd-shim" && strings.HasPrefix(comm, k.name) {
			return i
		}
	}
	return len(kinds) - 1
}

// shown is what the picture calls a kind of process.
func (k kind) shown() string {
	switch k.name {
	case benched:
		return "the service"
	case startComm:
		return "kollet-start"
	case "bench.test":
		return "the client"
	}
	return k.name
}

// runsOf returns what ran on each processor between two moments. Idle time is left
// out, and successive runs of one kind are joined.
func runsOf(events []traceEvent, from, to time.Time) [][]phase {
	var cpus [][]phase
	var running []phase
	put := func(cpu int, next phase) {
		r := running[cpu]
		running[cpu] = next
		if r.name == "" || strings.HasPrefix(r.name, "swapper") || !next.from.After(from) || !r.from.Before(to) {
			return
		}
		if r.to = next.from; r.to.After(to) {
			r.to = to
		}
		if r.from.Before(from) {
			r.from = from
		}
		if last := len(cpus[cpu]) - 1; last >= 0 && cpus[cpu][last].to.Equal(r.from) && kindOf(cpus[cpu][last].name) == kindOf(r.name) {
			cpus[cpu][last].to = r.to
			return
		}
		cpus[cpu] = append(cpus[cpu], r)
	}
	for _, e := range events {
		for len(running) <= e.cpu {
			running, cpus = append(running, phase{}), append(cpus, nil)
		}
		switch e.name {
		case "sched_switch":
			put(e.cpu, phase{name: e.fields["next_comm"], from: e.at})
		case "sched_process_exec": // what runs has another name from here on
			put(e.cpu, phase{name: filepath.Base(e.fields["filename"]), from: e.at})
		}
	}
	return cpus
}
