package view

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/doctor"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
)

// Status shows the services and their health.
type Status agent.Status

func (s Status) text(t *text) {
	if s.Generation == 0 && len(s.Services) > 0 {
		t.line("node %s: kolla-ansible's containers, %s %s; run `kollet adopt` to take them over", s.Node, s.Engine.Name, s.Engine.Version)
	} else if s.Generation == 0 {
		t.line("node %s: no generation yet, %s %s; run `kollet bootstrap`, or `kollet adopt` if kolla-ansible runs it", s.Node, s.Engine.Name, s.Engine.Version)
	} else {
		health, colour := "healthy", green
		if !s.Healthy {
			health, colour = "not healthy", red
		}
		t.painted(colour, "node %s: generation %d, created %s; %s %s, %s, %s", s.Node, s.Generation, t.age(s.Since), s.Engine.Name, s.Engine.Version, count(s.Guests, "guest"), health)
	}
	t.underway(s.Underway)
	if s.Disabled != nil {
		remedy := "; `kollet recover` enables it"
		if s.Running != "" {
			remedy = ""
		}
		t.painted(red, "kollet disabled the compute service %s (%s)%s", t.age(s.Disabled.Since), s.Disabled.Reason, remedy)
	}
	if len(s.Services) == 0 {
		return
	}
	var rows [][]string
	for _, r := range s.Services {
		rows = append(rows, []string{r.Name, r.State, r.Health, r.Image, strconv.Itoa(r.Generation), t.age(r.Since)})
	}
	t.table([]string{"SERVICE", "STATE", "HEALTH", "IMAGE", "GENERATION", "SINCE"}, rows, func(row int) string {
		switch s.Services[row].Health {
		case "healthy", "none":
			return ""
		}
		return red
	})
	s.reasons(t)
	t.hotfix(s.Hotfix)
}

// reasons shows each reason once, with the services for which it holds.
func (s Status) reasons(t *text) {
	var reasons []string
	services := map[string][]string{}
	for _, r := range s.Services {
		if r.Why == "" {
			continue
		}
		if services[r.Why] == nil {
			reasons = append(reasons, r.Why)
		}
		services[r.Why] = append(services[r.Why], r.Name)
	}
	for _, why := range reasons {
		t.line("%s: %s", strings.Join(services[why], ", "), why)
	}
}

// underway shows what kollet itself is doing to the node, or has left undone.
func (t *text) underway(u node.Underway) {
	if u.Running != "" {
		t.line("%s, is changing the node", u.Running)
	}
	if why := u.Interruption(); why != "" {
		t.painted(red, "%s", why)
	}
	if u.Problem != "" {
		t.painted(red, "a problem with kollet's records: %s", u.Problem)
	}
}

// hotfix shows what operators gave instead of the node file's tag and images.
func (t *text) hotfix(h nodefile.Hotfix) {
	if h.Tag != "" {
		t.painted(yellow, "hotfix: tag %s instead of the node file's; `kollet upgrade --drop-tag` returns to it", h.Tag)
	}
	for _, name := range slices.Sorted(maps.Keys(h.Images)) {
		t.painted(yellow, "hotfix: image %s of %s instead of the node file's; `kollet upgrade --drop-image %s` returns to it", h.Images[name], name, name)
	}
}

// Verification shows the drift from the current generation.
type Verification agent.Verification

func (v Verification) text(t *text) {
	t.underway(v.Underway)
	if len(v.CutOver) > 0 {
		t.line("not compared, as the upgrade replaces them: %s", strings.Join(v.CutOver, ", "))
	}
	if len(v.Drift) == 0 {
		t.line("no drift from generation %d in %s", v.Generation, count(v.Services, "service"))
		return
	}
	var rows [][]string
	for _, d := range v.Drift {
		rows = append(rows, []string{d.Service, d.What, d.Text})
	}
	t.table([]string{"SERVICE", "WHAT", "DRIFT"}, rows, nil)
	it := "it"
	if len(v.Drift) > 1 {
		it = "them"
	}
	t.line("%s from generation %d; `kollet upgrade` repairs %s", count(len(v.Drift), "difference"), v.Generation, it)
}

// Checks shows the findings of doctor.
type Checks []doctor.Check

func (c Checks) text(t *text) {
	var rows [][]string
	for _, check := range c {
		lines := strings.Split(check.Text, "\n") // several problems of the node file
		rows = append(rows, []string{check.Name, string(check.Level), lines[0]})
		for _, line := range lines[1:] {
			rows = append(rows, []string{"", "", line})
		}
		if check.Level != doctor.Fine && check.Remedy != "" {
			rows = append(rows, []string{"", "", "-> " + check.Remedy})
		}
	}
	t.table([]string{"CHECK", "LEVEL", "FINDING"}, rows, func(row int) string {
		switch rows[row][1] {
		case string(doctor.Bad):
			return red
		case string(doctor.Warning):
			return yellow
		}
		return ""
	})
}
