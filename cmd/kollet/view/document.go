package view

import (
	"bytes"
	"encoding/json"
	"fmt"

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
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

// toYAML writes the JSON form in YAML's block style, with the same keys, order and
// types. JSON is YAML, so that it can be parsed as such.
func toYAML(v any) ([]byte, error) {
	data, err := toJSON(v)
	if err != nil {
		return nil, err
	}
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
	return b.Bytes(), e.Close()
}

// block resets the style of all nodes; the encoder quotes where necessary.
func block(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		block(child)
	}
}
