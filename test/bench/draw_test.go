package bench

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/journal"
)

// phase is a part of an upgrade that its journal tells of.
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
			name = journal.Step{Kind: r.Step.Kind}.String() // the cut overs of all services together
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

// Where things are in the picture.
const (
	drawLeft, drawRight = 150, 1080
	rowHeight           = 20
)

// axis puts moments at pixels.
type axis struct{ from, to time.Time }

func (a axis) x(at time.Time) float64 {
	part := float64(at.Sub(a.from)) / float64(a.to.Sub(a.from))
	return drawLeft + min(max(part, 0), 1)*(drawRight-drawLeft)
}

// draw shows the whole upgrade, phase by phase, and below it its gap under the
// magnifying glass: what it is made of, and what ran on each processor.
func (u upgradeTrace) draw(engine string) []byte {
	s := &svg{width: drawRight + 90}
	s.text(10, 20, "start", fmt.Sprintf("One upgrade of one service on %s, images present: %.0f ms; the service was away for %.1f ms of them.",
		engine, ms(u.ended.Sub(u.started)), u.moments.parts().Total))
	y := 36.0
	whole := axis{u.started, u.ended}
	gapFrom, gapTo := whole.x(u.moments.lastAnswer), whole.x(u.moments.firstAnswer)
	phases := u.phases()
	s.box(gapFrom, y, gapTo-gapFrom, float64(len(phases)*rowHeight), "#f4c7c3", "the service is away")
	for _, p := range phases {
		s.text(drawLeft-8, y+14, "end", p.name)
		from, to := whole.x(p.from), whole.x(p.to)
		s.box(from, y+3, to-from, rowHeight-6, "#4a7ab5", fmt.Sprintf("%s: %.1f ms", p.name, p.ms()))
		anchor, x := "start", to+5
		if to > drawRight-60 {
			anchor, x = "end", from-5
		}
		s.text(x, y+14, anchor, fmt.Sprintf("%.1f ms", p.ms()))
		y += rowHeight
	}
	below := y + 44
	s.line(gapFrom, y, drawLeft, below-4, "#d98880")
	s.line(gapTo, y, drawRight, below-4, "#d98880")
	s.height = u.drawGap(s, below) + 14
	return s.bytes()
}

// drawGap draws from y downwards and returns where it ended.
func (u upgradeTrace) drawGap(s *svg, y float64) float64 {
	m := u.moments
	zoom := axis{m.lastAnswer, m.firstAnswer}
	s.text(drawLeft-8, y+14, "end", "away, because")
	x := float64(drawLeft)
	for i, p := range []phase{
		{"client's pause", m.lastAnswer, m.signal}, {"old process ends", m.signal, m.end}, {"kollet opens the gate", m.end, m.opened},
		{"kollet-start executes", m.opened, m.exec}, {"new process starts", m.exec, m.firstAnswer},
	} {
		colour := []string{"#bbb", "#e59866", "#4a7ab5", "#7fb3d5", "#76b583"}[i]
		name := fmt.Sprintf("%s: %.1f ms", p.name, p.ms())
		s.box(zoom.x(p.from), y, zoom.x(p.to)-zoom.x(p.from), rowHeight, colour, name)
		x = key(s, x, y+rowHeight+18, colour, name)
	}
	y += rowHeight + 40
	for cpu, runs := range runsOf(u.events, m.lastAnswer, m.firstAnswer) {
		s.text(drawLeft-8, y+14, "end", fmt.Sprintf("processor %d", cpu))
		for _, r := range runs {
			from, to := zoom.x(r.from), zoom.x(r.to)
			s.box(from, y, to-from, rowHeight, colourOf(r.name), fmt.Sprintf("%s: %.2f ms", r.name, r.ms()))
		}
		y += rowHeight + 6
	}
	for at := 0; ; at++ {
		when := m.lastAnswer.Add(time.Duration(at) * time.Millisecond)
		if when.After(m.firstAnswer) {
			break
		}
		s.line(zoom.x(when), y, zoom.x(when), y+5, "#222")
		s.text(zoom.x(when), y+18, "middle", fmt.Sprintf("%d ms", at))
	}
	return legend(s, y+36)
}

// text is the gap's part of the picture in words, for whoever looks for what
// takes the time.
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

// kinds of processes that run during a gap, as the picture tells them apart.
var kinds = []struct{ name, colour string }{
	{benched, "#76b583"}, {startComm, "#7fb3d5"}, {"kollet", "#4a7ab5"}, {"bench.test", "#bbb"},
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

func colourOf(comm string) string { return kinds[kindOf(comm)].colour }

func legend(s *svg, y float64) float64 {
	x := float64(drawLeft)
	for _, k := range kinds {
		name := map[string]string{benched: "the service", startComm: "kollet-start", "bench.test": "the client"}[k.name]
		if name == "" {
			name = k.name
		}
		x = key(s, x, y, k.colour, name)
	}
	return y
}

// key explains a colour, and returns where the next one goes.
func key(s *svg, x, y float64, colour, name string) float64 {
	s.box(x, y-10, 12, 12, colour, name)
	s.text(x+16, y, "start", name)
	return x + 36 + 6.4*float64(len(name))
}

// runsOf tells what ran on each processor between two moments; idle time is
// left out, and what followed on its own kind is one run with it.
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
