package pyyaml

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// Tags of scalars, as yaml.v3 abbreviates them.
const (
	tagString = "!!str"
	tagBool   = "!!bool"
	tagNull   = "!!null"
	tagInt    = "!!int"
	tagFloat  = "!!float"
	tagDate   = "!!timestamp"
	tagMerge  = "!!merge"
	tagValue  = "!!value"
)

// kinds are what errors call what is not a string.
var kinds = map[string]string{tagBool: "true or false", tagNull: "null", tagInt: "a number", tagFloat: "a number", tagDate: "a date"}

// forms are those of numbers and dates without quotes in PyYAML 6.0, which knows YAML 1.1.
// They are compiled when they are needed: few containers have a config.yaml.
var forms = sync.OnceValue(func() [3]struct {
	tag  string
	form *regexp.Regexp
} {
	compile := func(alternatives ...string) *regexp.Regexp {
		return regexp.MustCompile(`^(?:` + strings.Join(alternatives, "|") + `)$`)
	}
	return [3]struct {
		tag  string
		form *regexp.Regexp
	}{
		{tagInt, compile(`[-+]?0b[01_]+`, `[-+]?0[0-7_]+`, `[-+]?0x[0-9a-fA-F_]+`, `[-+]?(?:0|[1-9][0-9_]*)`,
			`[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+`)},
		{tagFloat, compile(`[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?`, `\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?`,
			`[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*`, `[-+]?\.(?:inf|Inf|INF)`, `\.(?:nan|NaN|NAN)`)},
		{tagDate, compile(`[0-9]{4}-[0-9]{2}-[0-9]{2}`,
			`[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?`)},
	}
})

// plain returns the tag of a scalar without quotes.
func plain(text string) string {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return tagNull
	case "yes", "Yes", "YES", "no", "No", "NO", "true", "True", "TRUE", "false", "False", "FALSE", "on", "On", "ON", "off", "Off", "OFF":
		return tagBool
	case "<<":
		return tagMerge
	case "=":
		return tagValue
	}
	if strings.IndexByte("-+.0123456789", text[0]) < 0 {
		return tagString
	}
	for _, f := range forms() {
		if f.form.MatchString(text) {
			return f.tag
		}
	}
	return tagString
}

// resolve returns the tag of a scalar: that which it is given, or which it has by its form.
func resolve(n *yaml.Node) (string, error) {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		if has := plain(n.Value); n.Tag == tagString || n.Tag == has || n.Tag == tagFloat && has == tagInt {
			return n.Tag, nil
		}
		return "", at(n, "the tag %s does not fit %.40q here; leave it out", n.Tag, n.Value)
	case n.Style&quoted != 0:
		return tagString, nil
	case strings.HasSuffix(n.Value, ":"): // in a list in brackets: text to yaml.v3, a key to PyYAML
		return "", at(n, "%.40q ends in a colon; put it in quotes, or a space and a value after it", n.Value)
	}
	return plain(n.Value), nil
}

// wantTag refuses a mapping or a list that is to become something else.
func wantTag(n *yaml.Node, tag string) error {
	if n.Style&yaml.TaggedStyle != 0 && n.Tag != tag {
		return at(n, "the tag %s does not fit here; leave it out", n.Tag)
	}
	return nil
}

func (w *writer) scalar(n *yaml.Node) error {
	tag, err := resolve(n)
	if err != nil {
		return err
	}
	switch tag {
	case tagString:
		w.text(n.Value)
	case tagNull:
		w.out = append(w.out, "null"...)
	case tagBool:
		word := strings.ToLower(n.Value)
		w.out = strconv.AppendBool(w.out, word == "yes" || word == "true" || word == "on")
	case tagInt, tagFloat:
		return w.number(n, tag)
	case tagDate:
		return at(n, "%.40q is a date here; put it in quotes", n.Value)
	default:
		return at(n, "%q has a meaning of its own in YAML; put it in quotes", n.Value)
	}
	return nil
}

func (w *writer) number(n *yaml.Node, tag string) error {
	digits := strings.ReplaceAll(n.Value, "_", "")
	if tag == tagInt {
		if i, err := strconv.ParseInt(digits, 0, 64); err == nil {
			w.out = strconv.AppendInt(w.out, i, 10)
			return nil
		}
	} else if f, err := strconv.ParseFloat(digits, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		w.out = strconv.AppendFloat(w.out, f, 'f', -1, 64)
		return nil
	}
	return at(n, "%.40q is a number here, and no number of JSON; put it in quotes", n.Value)
}
