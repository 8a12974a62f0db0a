package docker

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/kollet/kollet/containers"
)

// askedLabel holds the names, never the values, of what a spec set itself.
// Docker merges the image's settings and its own defaults into a container and
// does not say which is whose: a variable that the spec sets to the image's own
// value could not be told from one that the spec leaves alone.
const askedLabel = "org.kollet.asked"

// asked is the set of names; nil if a container was not made by kollet.
type asked map[string]bool

func askedFor(spec containers.Spec) asked {
	a := asked{}
	for field, set := range map[string]bool{
		"entrypoint":  spec.Entrypoint != nil,
		"command":     spec.Command != nil,
		"workdir":     spec.WorkingDir != "",
		"user":        spec.User != "",
		"cgroupns":    spec.CgroupNS != "",
		"stop_signal": spec.StopSignal != "",
		"log":         spec.LogSize != 0,
	} {
		if set {
			a[field] = true
		}
	}
	for key := range spec.Env {
		a["env "+key] = true
	}
	for key := range spec.Labels {
		a["label "+key] = true
	}
	for _, u := range spec.Ulimits {
		a["ulimit "+u.Name] = true
	}
	return a
}

func (a asked) label() string {
	text, err := json.Marshal(slices.Sorted(maps.Keys(a)))
	if err != nil {
		panic(err) // a list of strings always has a JSON form
	}
	return string(text)
}

// readAsked reads the label of a container; nil when it has none, or one that
// is not ours.
func readAsked(labels map[string]string) asked {
	var names []string
	if json.Unmarshal([]byte(labels[askedLabel]), &names) != nil {
		return nil
	}
	a := asked{}
	for _, n := range names {
		a[n] = true
	}
	return a
}
