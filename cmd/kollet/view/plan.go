package view

import (
	"fmt"
	"strings"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/plan"
)

// Plan shows what an upgrade would change.
type Plan agent.Planned

var actionMarks = map[plan.Action]struct{ mark, colour string }{
	plan.Add:           {"+", green},
	plan.Replace:       {"~", yellow},
	plan.Drop:          {"-", red},
	plan.UpdateInPlace: {"=", cyan},
}

func (p Plan) text(t *text) {
	t.underway(p.Underway)
	if p.Empty() && (p.Interrupted || p.Running != "") {
		t.line("nothing else to do: the node file describes generation %d", p.From)
		t.hotfixes(p.Hotfixes)
		return
	}
	if p.Empty() {
		t.line("nothing to do: the node is on generation %d", p.From)
		t.hotfixes(p.Hotfixes)
		return
	}
	for _, c := range p.Changes {
		t.change(c)
	}
	for _, d := range p.otherDrift() {
		t.line("%s: %s", d.Service, d.Text)
	}
	t.hotfixes(p.Hotfixes)
	t.line("%s", p.totals())
}

func (t *text) hotfixes(all []plan.Hotfix) {
	for _, h := range all {
		if h.Service != "" {
			t.line("%s: %s", h.Service, h.Text())
		} else {
			t.line("%s", h.Text())
		}
	}
}

// otherDrift returns the drift that no change repairs.
func (p Plan) otherDrift() []plan.Drift {
	reported := map[string]bool{}
	for _, c := range p.Changes {
		reported[c.Service] = len(c.Repair) > 0
	}
	var left []plan.Drift
	for _, d := range p.Drift {
		if !reported[d.Service] {
			left = append(left, d)
		}
	}
	return left
}

func (t *text) change(c plan.Change) {
	m := actionMarks[c.Action]
	effect := ""
	if c.Action == plan.UpdateInPlace {
		effect = "; its container keeps running"
	}
	t.painted(m.colour, "%s %s: %s%s", m.mark, c.Service, c.Action, effect)
	if c.Image != nil {
		t.image(*c.Image)
	}
	for _, s := range c.Spec {
		t.line("    setting  %s", s)
	}
	for _, r := range c.Repair {
		t.line("    repair   %s", r)
	}
	for _, f := range c.Files {
		note := ""
		if f.Note != "" {
			note = ": " + f.Note
		}
		t.line("    file     %s%s", f.Path, note)
		t.diff(f.Diff)
	}
	t.WriteByte('\n')
}

func (t *text) image(i plan.ImageChange) {
	pull := ""
	if i.Pull {
		pull = " (to be pulled)"
	}
	switch i.From {
	case "", i.To:
		t.line("    image    %s%s", i.To, pull)
	default:
		t.line("    image    %s", i.From)
		t.line("          -> %s%s", i.To, pull)
	}
	if i.InsteadOf != "" {
		t.line("             instead of the node file's %s", i.InsteadOf)
	}
}

// diff colours a unified diff.
func (t *text) diff(diff string) {
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\n")
		colour := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
			colour = bold
		case strings.HasPrefix(line, "@@"):
			colour = cyan
		case strings.HasPrefix(line, "+"):
			colour = green
		case strings.HasPrefix(line, "-"):
			colour = red
		}
		t.painted(colour, "        %s", line)
	}
}

// totals is the plan in one line.
func (p Plan) totals() string {
	actions := map[plan.Action]int{}
	pulls, files := 0, 0
	for _, c := range p.Changes {
		actions[c.Action]++
		files += len(c.Files)
		if c.Image != nil && c.Image.Pull {
			pulls++
		}
	}
	var parts []string
	for _, a := range []plan.Action{plan.Add, plan.Replace, plan.Drop, plan.UpdateInPlace} {
		if n := actions[a]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d to %s", n, a))
		}
	}
	services := "no service changes"
	if len(parts) > 0 {
		services = "services: " + strings.Join(parts, ", ")
	}
	return fmt.Sprintf("from generation %d; %s; %s; %s", p.From, services, count(files, "new or changed file"), count(pulls, "image")+" to pull")
}
