package docker

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/kollet/kollet/containers"
)

// explicitLabel contains the names, never the values, of the settings in a spec.
// Docker merges the image's settings and its defaults into a container without
// recording where each came from: a variable that the spec sets to the image's
// value would look like one that the spec does not set.
const explicitLabel = "org.kollet.explicit"

// explicit is that set of names; nil if kollet did not create the container.
type explicit map[string]bool

func explicitIn(spec containers.Spec) explicit {
	a := explicit{}
	for field, set := range map[string]bool{
		"entrypoint":  spec.Entrypoint != nil,
		"command":     spec.Command != nil,
		"working_dir": spec.WorkingDir != "",
		"user":        spec.User != "",
		"cgroup":      spec.Cgroup != "",
		"stop_signal": spec.StopSignal != "",
		"log":         spec.LogSize != 0,

		"engine_healthcheck": len(spec.Healthcheck.Test) > 0,

		"memswap_limit": spec.Dimensions.MemswapLimit != 0,
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

func (a explicit) label() string {
	text, err := json.Marshal(slices.Sorted(maps.Keys(a)))
	if err != nil {
		panic(err) // a list of strings always has a JSON form
	}
	return string(text)
}

// readExplicit parses a container's label; nil if it is absent or invalid.
func readExplicit(labels map[string]string) explicit {
	var names []string
	if json.Unmarshal([]byte(labels[explicitLabel]), &names) != nil {
		return nil
	}
	a := explicit{}
	for _, n := range names {
		a[n] = true
	}
	return a
}
