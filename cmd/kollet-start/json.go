package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// deepest is how deeply a config file may be nested. The contract needs three levels.
const deepest = 100

// parseJSON reads JSON as strictly as RFC 8259 defines it, as Python's json does too:
// strings have no control characters, no unknown escapes, and only valid UTF-8. Package
// encoding/json would make kollet-start a sixth larger.
func parseJSON(data []byte) (value, error) {
	p := jsonParser{text: string(data)}
	v, err := p.value(0)
	if err == nil && p.skip() != 0 {
		err = errors.New("something follows the value")
	}
	if err != nil {
		return value{}, fmt.Errorf("%s: %w", position(p.text, p.at), err)
	}
	return v, nil
}

// position returns the line and the column of an offset, as editors count them.
func position(text string, offset int) string {
	before := text[:min(offset, len(text))]
	line := 1 + strings.Count(before, "\n")
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

type jsonParser struct {
	text string
	at   int
}

var errEnd = errors.New("the file ends too early")

// skip skips white space and returns the byte that follows, 0 at the end.
func (p *jsonParser) skip() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	return p.peek()
}

func (p *jsonParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// take skips a byte if it comes next.
func (p *jsonParser) take(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *jsonParser) value(depth int) (value, error) {
	if depth > deepest {
		return value{}, errors.New("nested too deeply")
	}
	switch c := p.skip(); {
	case p.at == len(p.text):
		return value{}, errEnd
	case c == '{':
		members, err := p.object(depth)
		return value{kind: isObject, members: members}, err
	case c == '[':
		items, err := p.list(depth)
		return value{kind: isList, items: items}, err
	case c == '"':
		s, err := p.str()
		return value{kind: isText, text: s}, err
	}
	return p.word()
}

func (p *jsonParser) object(depth int) (members []member, err error) {
	p.at++
	if p.skip() == '}' {
		p.at++
		return nil, nil
	}
	for {
		if p.skip() != '"' {
			return nil, errors.New("expected a key in double quotes")
		}
		var m member
		if m.key, err = p.str(); err != nil {
			return nil, err
		}
		if p.skip(); !p.take(':') {
			return nil, errors.New("expected a colon after the key")
		}
		if m.value, err = p.value(depth + 1); err != nil {
			return nil, err
		}
		members = append(members, m)
		if p.skip(); p.take('}') {
			return members, nil
		}
		if !p.take(',') {
			return nil, errors.New("expected a comma or }")
		}
	}
}

func (p *jsonParser) list(depth int) (items []value, err error) {
	p.at++
	if p.skip() == ']' {
		p.at++
		return nil, nil
	}
	for {
		item, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		if p.skip(); p.take(']') {
			return items, nil
		}
		if !p.take(',') {
			return nil, errors.New("expected a comma or ]")
		}
	}
}

// word reads true, false, null or a number.
func (p *jsonParser) word() (value, error) {
	end := p.at
	for end < len(p.text) && strings.IndexByte(" \t\r\n,]}:\"[{", p.text[end]) < 0 {
		end++
	}
	word := p.text[p.at:end]
	v := value{}
	switch {
	case word == "null":
	case word == "true" || word == "false":
		v = value{kind: isBool, yes: word == "true"}
	case isJSONNumber(word):
		v.kind = isNumber
	default:
		return value{}, errors.New("expected a value")
	}
	p.at = end
	return v, nil
}

func isJSONNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole, rest := digits(s)
	if whole == "" || len(whole) > 1 && whole[0] == '0' {
		return false
	}
	if after, ok := strings.CutPrefix(rest, "."); ok {
		var fraction string
		if fraction, rest = digits(after); fraction == "" {
			return false
		}
	}
	if rest == "" {
		return true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	rest = rest[1:]
	if rest != "" && (rest[0] == '+' || rest[0] == '-') {
		rest = rest[1:]
	}
	exponent, rest := digits(rest)
	return exponent != "" && rest == ""
}

// digits splits s after its leading digits.
func digits(s string) (leading, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

// str reads a string in double quotes.
func (p *jsonParser) str() (string, error) {
	p.at++
	var b strings.Builder
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		switch {
		case r == '"':
			p.at++
			return b.String(), nil
		case r == '\\':
			escaped, err := p.escape()
			if err != nil {
				return "", err
			}
			b.WriteRune(escaped)
			continue
		case r < ' ':
			return "", errors.New("a string contains a control character; write it as an escape, such as \\n")
		case r == utf8.RuneError && n == 1:
			return "", errors.New("a string is not valid UTF-8")
		}
		b.WriteString(p.text[p.at : p.at+n])
		p.at += n
	}
	return "", errEnd
}

const (
	escapes = `"\/bfnrt`
	escaped = "\"\\/\b\f\n\r\t"
)

func (p *jsonParser) escape() (rune, error) {
	rest := p.text[p.at+1:]
	if rest == "" {
		return 0, errEnd
	}
	if i := strings.IndexByte(escapes, rest[0]); i >= 0 {
		p.at += 2
		return rune(escaped[i]), nil
	}
	high, ok := hex4(rest)
	if !ok {
		return 0, errors.New("a string contains an unknown escape")
	}
	if !utf16.IsSurrogate(high) {
		p.at += 6
		return high, nil
	}
	low, _ := hex4(strings.TrimPrefix(rest[5:], `\`))
	both := utf16.DecodeRune(high, low)
	if both == utf8.RuneError {
		return 0, errors.New("a string contains half of a surrogate pair")
	}
	p.at += 12
	return both, nil
}

// hex4 reads u and four hexadecimal digits.
func hex4(s string) (rune, bool) {
	if len(s) < 5 || s[0] != 'u' || strings.Trim(s[1:5], "0123456789abcdefABCDEF") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:5], 16, 16)
	return rune(n), err == nil
}

// quote writes a string as Python's json does by default: in ASCII.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if i := strings.IndexRune(escaped, r); i >= 0 && r != '/' && r != utf8.RuneError {
			b.WriteByte('\\')
			b.WriteByte(escapes[i])
		} else if r >= ' ' && r <= '~' {
			b.WriteRune(r)
		} else {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
