package ini

import "strings"

// Get returns a key's values as oslo.config reads them; nil if it has none.
func (f *File) Get(section, key string) []string {
	s := f.find(section)
	if s == nil {
		return nil
	}
	k := s.find(key)
	if k == nil {
		return nil
	}
	values := make([]string, len(k.Values))
	for i, v := range k.Values {
		values[i] = unquote(v)
	}
	return values
}

// unquote takes one pair of quotes off a value, as oslo.config does: only where
// the value's first line starts and ends with the same quote.
func unquote(value string) string {
	first, rest, more := strings.Cut(value, "\n")
	if first != "" && (first[0] == '"' || first[0] == '\'') && first[0] == first[len(first)-1] {
		if len(first) == 1 {
			first = ""
		} else {
			first = first[1 : len(first)-1]
		}
	}
	if more {
		return first + "\n" + rest
	}
	return first
}
