package pyyaml

import "gopkg.in/yaml.v3"

type pair struct {
	key   string
	value *yaml.Node
}

// pairs returns what is in a mapping, after what it merges and does not have itself.
func (w *writer) pairs(n *yaml.Node, level int) ([]pair, error) {
	if err := wantTag(n, "!!map"); err != nil {
		return nil, err
	}
	var own, merged []pair
	first := map[string]int{} // line of each key
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], follow(n.Content[i+1])
		name, tag, err := keyOf(key)
		if err == nil {
			err = w.count(follow(key), level)
		}
		if err != nil {
			return nil, err
		}
		if line, twice := first[name]; twice {
			return nil, at(key, "the key %s is there twice, first in line %d; PyYAML would take the last: remove one", name, line)
		}
		first[name] = key.Line
		if tag != tagMerge {
			own = append(own, pair{name, value})
		} else if merged, err = w.merge(value, level); err != nil {
			return nil, err
		}
	}
	delete(first, "<<")
	return append(without(merged, first), own...), nil
}

// merge returns what a mapping, or a list of them, gives to the mapping that merges it. Of
// two that have a key, the first gives it.
func (w *writer) merge(n *yaml.Node, level int) ([]pair, error) {
	from := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		from = n.Content
	}
	var all []pair
	have := map[string]int{}
	for _, m := range from {
		m = follow(m)
		if m.Kind != yaml.MappingNode {
			return nil, at(m, "<< takes a mapping, or a list of mappings")
		}
		if err := w.count(m, level+1); err != nil {
			return nil, err
		}
		pairs, err := w.pairs(m, level+1)
		if err != nil {
			return nil, err
		}
		w.work += len(pairs)
		for _, p := range without(pairs, have) {
			all, have[p.key] = append(all, p), m.Line
		}
	}
	return all, nil
}

// without leaves out the pairs whose key is known.
func without(pairs []pair, known map[string]int) []pair {
	var left []pair
	for _, p := range pairs {
		if _, ok := known[p.key]; !ok {
			left = append(left, p)
		}
	}
	return left
}

// keyOf returns a key, which has to be a string, and its tag.
func keyOf(n *yaml.Node) (name, tag string, err error) {
	k := follow(n)
	if k.Kind != yaml.ScalarNode {
		return "", "", at(n, "expected a string as key")
	}
	tag, err = resolve(k)
	switch {
	case err != nil:
		return "", "", err
	case tag == tagString, tag == tagMerge, tag == tagValue: // PyYAML takes = for a string if it is a key
		return k.Value, tag, nil
	}
	return "", "", at(n, "%.40q is %s, not a string; put the key in quotes", k.Value, kinds[tag])
}
