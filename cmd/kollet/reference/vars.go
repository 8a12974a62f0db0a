package reference

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/configs"
)

// variable is one that a profile's templates use.
type variable struct {
	name, value, doc string // value is empty if it has to be set
}

// variables reads a built-in profile's: the comment above each is its meaning.
func variables(profile string) []variable {
	data, err := configs.Profile(profile)
	if err != nil {
		panic(err) // built in
	}
	var p struct {
		Vars yaml.Node `yaml:"vars"`
	}
	if err := yaml.Unmarshal(data, &p); err != nil {
		panic(fmt.Errorf("profile %s: %w", profile, err)) // built in
	}
	var vars []variable
	for i := 0; i+1 < len(p.Vars.Content); i += 2 {
		key, value := p.Vars.Content[i], p.Vars.Content[i+1]
		v := variable{name: key.Value, value: value.Value, doc: meaning(key.HeadComment)}
		switch value.Tag {
		case "!!null":
			v.value = ""
		case "!!str":
			if value.Value == "" {
				v.value = `""`
			}
		}
		vars = append(vars, v)
	}
	return vars
}

func meaning(comment string) string {
	var words []string
	for line := range strings.Lines(comment) {
		words = append(words, strings.TrimSpace(strings.TrimPrefix(line, "#")))
	}
	return strings.Join(words, " ")
}
