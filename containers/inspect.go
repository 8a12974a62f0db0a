package containers

import (
	"errors"
	"strings"

	"golang.org/x/sync/errgroup"
)

// inspectLimit is how many containers InspectAll inspects concurrently.
const inspectLimit = 4

// InspectAll inspects the containers of a list, several concurrently, and keeps
// the order. Those for which inspect returns ErrNotFound, because they were
// removed meanwhile, are left out.
func InspectAll[T any](list []T, inspect func(T) (Container, error)) ([]Container, error) {
	found := make([]*Container, len(list))
	var g errgroup.Group
	g.SetLimit(inspectLimit)
	for i, item := range list {
		g.Go(func() error {
			c, err := inspect(item)
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			found[i] = &c
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []Container
	for _, c := range found {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out, nil
}

// HasLabels reports whether all wanted labels are among those that there are.
func HasLabels(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// Environment returns variables that an engine lists as KEY=VALUE.
func Environment(list []string) map[string]string {
	out := map[string]string{}
	for _, e := range list {
		key, value, _ := strings.Cut(e, "=")
		out[key] = value
	}
	return out
}
