package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"gopkg.in/yaml.v3"
)

// document prints exactly one document, for programs.
type document struct {
	*printer
	encode func(any) ([]byte, error)
}

// failure is the document that replaces a result.
type failure struct {
	Error  string `json:"error"`
	Exit   int    `json:"exit"`
	Result any    `json:"result,omitempty"`
}

func (p *document) Show(v View) error {
	p.Close()
	return p.write(v)
}

func (p *document) Fail(err error, exit int, result View) {
	p.printError(err)
	f := failure{Error: err.Error(), Exit: exit}
	if result != nil {
		f.Result = result
	}
	_ = p.write(f) // standard error has the error already
}

func (p *document) write(v any) error {
	data, err := p.encode(v)
	if err == nil {
		_, err = p.screen.Out.Write(data)
	}
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

func toJSON(v any) ([]byte, error) {
	data, err := encode(v)
	return escape(data, func(r rune) string {
		var units strings.Builder
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&units, `\u%04x`, unit)
		}
		return units.String()
	}), err
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

// escape escapes what a terminal should not get, and package json leaves as it is. In
// JSON, such characters are in strings only, and in YAML in double quotes.
func escape(text []byte, as func(rune) string) []byte {
	var b bytes.Buffer
	for _, r := range string(text) {
		if unicode.IsGraphic(r) || r == '\n' {
			b.WriteRune(r)
		} else {
			b.WriteString(as(r))
		}
	}
	return b.Bytes()
}

// toYAML writes the JSON form in YAML's block style, with the same keys, order and
// types. JSON is YAML, so that it can be parsed as such.
func toYAML(v any) ([]byte, error) {
	data, err := encode(v)
	if err != nil {
		return nil, err
	}
	data = escape(data, func(r rune) string { // package yaml reads neither a raw control character nor a pair of escapes
		if r > unicode.MaxLatin1 {
			return string(r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	block(&doc)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return nil, err
	}
	err = e.Close()
	return escape(b.Bytes(), func(r rune) string { return fmt.Sprintf(`\U%08x`, r) }), err
}

// block resets the style of all nodes; the encoder quotes where necessary.
func block(n *yaml.Node) {
	n.Style = 0
	if strings.ContainsFunc(n.Value, func(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' }) {
		n.Style = yaml.DoubleQuotedStyle // for escape
	}
	for _, child := range n.Content {
		block(child)
	}
}
