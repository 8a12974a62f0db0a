package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/target"
)

// Hotfix is an image or a tag that an operator gave instead of the node file's.
type Hotfix struct {
	Service  string      `json:"service,omitempty"`   // empty: a tag, for all images that name none
	Value    string      `json:"value"`               // the image or the tag
	NodeFile string      `json:"node_file,omitempty"` // what the node file says; empty: nothing, or after a rollback
	State    HotfixState `json:"state"`
}

// HotfixState is what happens to a hotfix.
type HotfixState string

const (
	Set     HotfixState = "set"
	Kept    HotfixState = "kept"
	Dropped HotfixState = "dropped" // on request, or because the node file says the same
)

func (h Hotfix) changes() bool { return h.State != Kept }

// Text says it in a sentence.
func (h Hotfix) Text() string {
	what, drop := "image "+h.Value, "--drop-image "+h.Service
	if h.Service == "" {
		what, drop = "tag "+h.Value, "--drop-tag"
	}
	file := "the node file's " + h.NodeFile
	if h.NodeFile == "" {
		file = "what the node file says"
	}
	switch {
	case h.State == Dropped && strings.HasSuffix("/"+h.NodeFile, "/"+h.Value):
		return fmt.Sprintf("hotfix: the node file now says the same: %s", what)
	case h.State == Dropped && h.NodeFile == "":
		return fmt.Sprintf("hotfix: %s is dropped", what)
	case h.State == Dropped:
		return fmt.Sprintf("hotfix: %s is dropped; %s applies again", what, file)
	}
	return fmt.Sprintf("hotfix: %s instead of %s; it stays until the node file says the same or `kollet upgrade %s` drops it", what, file, drop)
}

// hotfixes compares the hotfix of a target with that of the current generation.
func hotfixes(t *target.Target, current generation.Generation) []Hotfix {
	var all []Hotfix
	add := func(service, old, new, file string) {
		h := Hotfix{Service: service, Value: cmp.Or(new, old), NodeFile: file, State: Set}
		switch {
		case new == "":
			h.State = Dropped
		case new == old:
			h.State = Kept
		}
		if h.Value != "" {
			all = append(all, h)
		}
	}
	add("", current.Hotfix.Tag, t.Hotfix.Tag, t.FileTag)
	both := maps.Clone(current.Hotfix.Images)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, t.Hotfix.Images)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		add(name, current.Hotfix.Images[name], t.Hotfix.Images[name], fileImage(t, name))
	}
	return all
}

// fileImage returns the image that the node file gives a service; empty after a rollback, and
// for a service that it does not have.
func fileImage(t *target.Target, service string) string {
	i := slices.IndexFunc(t.Services, func(s generation.Service) bool { return s.Name == service })
	if t.Recalled || i < 0 {
		return ""
	}
	return cmp.Or(t.Services[i].InsteadOf, t.Services[i].Ref)
}
