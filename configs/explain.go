package configs

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/kollet/kollet/configs/ini"
	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/configs/report"
)

// Explanation says where the content of a config file comes from.
type Explanation struct {
	Origin             // of the whole file, unless it has Settings
	Settings []Setting `json:"settings,omitempty"` // of an INI file, in its order
}

// Origin is a place in a layer.
type Origin struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // of the layer before it is rendered; 0: unknown
}

func (o Origin) String() string {
	if o.Line == 0 {
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// Find returns the setting of a key.
func (e Explanation) Find(section, key string) (Setting, bool) {
	for _, s := range e.Settings {
		if ini.Canonical(s.Section) == ini.Canonical(section) && s.Key == key {
			return s, true
		}
	}
	return Setting{}, false
}

// Setting is a key of an INI file. Its values are for people: secrets are replaced.
type Setting struct {
	Section string   `json:"section"`
	Key     string   `json:"key"`
	Values  []string `json:"values"`
	Origin
	Replaced []Replaced `json:"replaced,omitempty"` // the last one first
}

// Replaced is what a key had in a lower layer.
type Replaced struct {
	Values []string `json:"values"`
	Origin
}

// Explain says which layers a config file that can be rendered gets its content from.
func (r *Renderer) Explain(service string, f File) (Explanation, error) {
	var all report.Problems
	layers := r.layers(service, f, &all)
	if all.Len() > 0 {
		return Explanation{}, all.Err()
	}
	if f.Format != "ini" {
		return Explanation{Origin: Origin{File: layers[len(layers)-1].file}}, nil
	}
	var merged ini.File
	values := map[[2]string][]Replaced{} // by section and key, the highest layer first
	for _, l := range layers {
		parsed, lines, err := r.parse(l)
		if err != nil {
			return Explanation{}, err
		}
		merged.Merge(parsed)
		for _, section := range parsed.Sections {
			for _, key := range section.Keys {
				id := [2]string{ini.Canonical(section.Name), key.Name}
				one := Replaced{r.shown(key), Origin{l.file, lines.of(key.Line)}}
				values[id] = slices.Insert(values[id], 0, one)
			}
		}
	}
	var e Explanation
	for _, section := range merged.Sections {
		for _, key := range section.Keys {
			from := values[[2]string{ini.Canonical(section.Name), key.Name}]
			e.Settings = append(e.Settings, Setting{section.Name, key.Name, from[0].Values, from[0].Origin, from[1:]})
		}
	}
	return e, nil
}

// parse parses a layer as people may read it, and returns the lines that it was rendered from.
func (r *Renderer) parse(l layer) (*ini.File, lines, error) {
	body, lines := l.body, lines(nil)
	if l.template {
		var err error
		if body, lines, err = r.trace(l.text); err != nil {
			return nil, nil, err
		}
	}
	parsed, err := ini.Parse([]byte(body))
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be explained without the values of secrets: %w", l.file, r.redactor.Error(err))
	}
	return parsed, lines, nil
}

// shown returns a key's values for people.
func (r *Renderer) shown(key *ini.Key) []string {
	shown := make([]string, len(key.Values))
	for i, value := range key.Values {
		shown[i] = r.redactor.Text(redact.MaskValue(key.Name, value))
		if !utf8.ValidString(shown[i]) {
			shown[i] = fmt.Sprintf("<%d bytes, not shown>", len(value))
		}
	}
	return shown
}
