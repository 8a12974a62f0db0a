// Package pyyaml reads YAML as safe_load of Python's PyYAML does, and writes it as JSON.
// Kolla reads config.yaml with it, and config.json means the same, so all else has to know
// only config.json.
//
// It is stricter where a file is ambiguous or has no JSON: a key that is there twice, a key
// or a number that JSON does not have, a date. docs/kolla.md lists the differences.
package pyyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	mostLevels = 300     // what kollet-start accepts of JSON
	most       = 4 << 20 // bytes of a file, and of its JSON: aliases can make a small file large
)

// ToJSON converts one document. Errors name line and column as far as the parser knows them, and the remedy.
func ToJSON(data []byte) ([]byte, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	var w writer
	if err := w.value(root, 1); err != nil {
		return nil, err
	}
	return w.out, nil
}

var errEmpty = errors.New("the file is empty")

func parse(data []byte) (*yaml.Node, error) {
	if len(data) > most {
		return nil, fmt.Errorf("the file has more than %d bytes", most)
	}
	if err := checkCharacters(data); err != nil {
		return nil, err
	}
	var doc, more yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(data))
	if err := in.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, errEmpty
	} else if err != nil {
		return nil, syntax(err)
	}
	if err := in.Decode(&more); err == nil {
		return nil, at(&more, "a second document begins here; remove it, or the line ---")
	} else if !errors.Is(err, io.EOF) {
		return nil, syntax(err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.ScalarNode {
		return root, nil
	}
	tag, err := resolve(root)
	if tag == tagNull {
		return nil, errEmpty
	}
	return root, err
}

// checkCharacters finds what is no character of YAML. yaml.v3 does not say where it is.
func checkCharacters(data []byte) error {
	line, column := 1, 0
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		column++
		switch {
		case r == utf8.RuneError && size == 1:
			return fmt.Errorf("line %d, column %d: this is not UTF-8", line, column)
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\t' && r != '\r', r >= 0x7f && r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff,
			r == 0xfeff && len(rest) < len(data):
			return fmt.Errorf("line %d, column %d: YAML does not allow the character %U; write it as an escape in double quotes", line, column, r)
		}
		rest = rest[size:]
	}
	return nil
}

// syntax rewrites "yaml: line 3: did not find …": yaml.v3 is often one line off, and says
// nothing of the first line.
func syntax(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, rest, found := strings.Cut(rest, ": "); found {
			return fmt.Errorf("not valid YAML near line %s: %s", line, rest)
		}
	}
	return errors.New("not valid YAML: " + text)
}

func at(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d, column %d: %s", n.Line, n.Column, fmt.Sprintf(format, args...))
}

// writer writes JSON. Everything that it looks at counts: aliases and merge keys can make
// it look at a few nodes without end.
type writer struct {
	out  []byte
	work int
}

func (w *writer) count(n *yaml.Node, level int) error {
	w.work += 1 + len(n.Value)
	switch {
	case level > mostLevels:
		return at(n, "more than %d levels, or an alias within what it stands for", mostLevels)
	case w.work > most || len(w.out) > most:
		return at(n, "the file is too large, with its aliases written out")
	}
	return nil
}

func (w *writer) value(n *yaml.Node, level int) error {
	n = follow(n)
	if err := w.count(n, level); err != nil {
		return err
	}
	switch n.Kind {
	case yaml.MappingNode:
		return w.mapping(n, level)
	case yaml.SequenceNode:
		return w.sequence(n, level)
	default:
		return w.scalar(n)
	}
}

func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (w *writer) sequence(n *yaml.Node, level int) error {
	if err := wantTag(n, "!!seq"); err != nil {
		return err
	}
	w.out = append(w.out, '[')
	for i, item := range n.Content {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(item, level+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *writer) mapping(n *yaml.Node, level int) error {
	pairs, err := w.pairs(n, level)
	if err != nil {
		return err
	}
	w.out = append(w.out, '{')
	for i, p := range pairs {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.text(p.key)
		w.out = append(w.out, ':')
		if err := w.value(p.value, level+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}

// text writes a string, which is UTF-8.
func (w *writer) text(s string) {
	w.out = append(w.out, '"')
	for _, c := range []byte(s) {
		switch {
		case c == '\n':
			w.out = append(w.out, '\\', 'n')
		case c < ' ':
			w.out = fmt.Appendf(w.out, `\u%04x`, c)
		case c == '"' || c == '\\':
			w.out = append(w.out, '\\', c)
		default:
			w.out = append(w.out, c)
		}
	}
	w.out = append(w.out, '"')
}
