package nodefile

import (
	"maps"
	"slices"
	"strings"

	"github.com/kollet/kollet/configs/report"
)

// Order returns the services' names, each after those that it depends on, and
// otherwise by name.
func (n *Node) Order() []string {
	order, _ := n.order() // Parse has reported any cycle
	return order
}

func (n *Node) order() ([]string, *report.Problem) {
	var order, path []string
	state := map[string]int{} // 1: being visited, 2: done
	var visit func(name string) *report.Problem
	visit = func(name string) *report.Problem {
		if state[name] == 2 {
			return nil
		}
		if state[name] == 1 {
			cycle := append(path[slices.Index(path, name):], name)
			key := "services." + name + ".depends_on"
			return &report.Problem{Place: n.Place(key), Key: key, Text: "the start order has a cycle: " + strings.Join(cycle, " depends on ") + "; remove one of these dependencies"}
		}
		state[name] = 1
		path = append(path, name)
		for _, dep := range n.Services[name].DependsOn {
			if _, ok := n.Services[dep]; !ok {
				continue
			}
			if err := visit(dep); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		state[name] = 2
		order = append(order, name)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(n.Services)) {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}
