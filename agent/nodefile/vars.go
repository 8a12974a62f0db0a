package nodefile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kollet/kollet/configs/report"
)

// checkVars checks the variables of the node file whose values the profile restricts. A
// service would refuse others when it starts, or silently do something else.
func (n *Node) checkVars(p profile, problems *report.Problems) {
	for _, name := range slices.Sorted(maps.Keys(n.Vars)) {
		value, key := n.Vars[name], "vars."+name
		if value == nil {
			continue
		}
		if _, isSwitch := p.Vars[name].(bool); isSwitch {
			// YAML 1.2 reads no and off as text, and to a template text is true.
			if _, ok := value.(bool); !ok {
				problems.Addf(n.Place(key), key, "expected true or false without quotes, got %q", fmt.Sprint(value))
			}
		}
		if allowed, ok := p.OneOf[name]; ok {
			n.checkChoice(key, fmt.Sprint(value), allowed, problems)
		}
		if allowed, ok := p.SomeOf[name]; ok {
			for _, entry := range entriesOf(value) {
				n.checkChoice(key, entry, allowed, problems)
			}
		}
	}
}

func (n *Node) checkChoice(key, value string, allowed []string, problems *report.Problems) {
	if slices.Contains(allowed, value) {
		return
	}
	shown := slices.Clone(allowed)
	for i, text := range shown {
		if text == "" {
			shown[i] = `""`
		}
	}
	problems.Addf(n.Place(key), key, "expected one of %s, got %q%s", strings.Join(shown, ", "), value, report.DidYouMean(value, allowed))
}

// entriesOf returns the entries of a list, or of text that separates them by commas.
func entriesOf(value any) []string {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	var entries []string
	for _, item := range list {
		for entry := range strings.SplitSeq(fmt.Sprint(item), ",") {
			if entry = strings.TrimSpace(entry); entry != "" {
				entries = append(entries, entry)
			}
		}
	}
	return entries
}
