package ini

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Error is a syntax error in one line.
type Error struct {
	Line int // from 1
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// Parse parses a file. It returns an *Error for each line that is wrong, joined
// by errors.Join.
func Parse(data []byte) (*File, error) {
	p := parser{file: &File{}}
	// Python reads text with universal newlines: all three kinds end a line.
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
	for line := range strings.SplitSeq(text, "\n") {
		p.number++
		p.line(strings.TrimRightFunc(line, space))
	}
	p.flush()
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.file, nil
}

type parser struct {
	file    *File
	number  int
	section string
	key     string   // the key whose value is being read; empty if none
	at      int      // its line
	value   []string // its lines
	errs    []error
}

func (p *parser) line(line string) {
	switch {
	case !utf8.ValidString(line):
		p.fail("not valid UTF-8; save the file as UTF-8")
		p.flush()
	case line == "":
		p.flush()
	case line[0] == ' ' || line[0] == '\t':
		if p.key == "" {
			p.fail("an indented line continues a value, and there is none above it; remove the indentation")
			return
		}
		p.value = append(p.value, strings.TrimLeftFunc(line, space))
	default:
		p.flush()
		p.start(line)
	}
}

func (p *parser) start(line string) {
	first, _ := utf8.DecodeRuneInString(line)
	switch {
	case line[0] == '[':
		p.newSection(line)
	case line[0] == '#' || line[0] == ';':
	case first == '\ufeff' || space(first):
		p.fail("starts with the invisible character %U; remove it", first)
	default:
		p.newKey(line)
	}
}

func (p *parser) newSection(line string) {
	name := strings.TrimSuffix(line[1:], "]")
	switch {
	case !strings.HasSuffix(line, "]"):
		p.fail("expected a section, such as [libvirt], and nothing after it")
	case name == "":
		p.fail("the section has no name; expected one, such as [libvirt]")
	case strings.TrimFunc(name, space) != name:
		p.fail("the section's name has spaces around it, and no service would find it; write [%s]", strings.TrimFunc(name, space))
	default:
		p.section = name
		p.file.section(name)
	}
}

func (p *parser) newKey(line string) {
	at := strings.IndexAny(line, "=:")
	if at < 0 {
		p.fail("expected key = value, a [section] or a # comment")
		return
	}
	key := strings.TrimFunc(line[:at], space)
	if key == "" {
		p.fail("no key before the %q; expected key = value", line[at])
		return
	}
	p.key, p.at, p.value = key, p.number, []string{strings.TrimFunc(line[at+1:], space)}
}

// flush stores the value that was read.
func (p *parser) flush() {
	if p.key == "" {
		return
	}
	section := p.section
	if section == "" {
		section = Default
	}
	key := p.file.section(section).key(p.key)
	if len(key.Values) == 0 {
		key.Line = p.at
	}
	key.Values = append(key.Values, strings.Join(p.value, "\n"))
	p.key, p.value = "", nil
}

func (p *parser) fail(format string, args ...any) {
	p.errs = append(p.errs, &Error{Line: p.number, Text: fmt.Sprintf(format, args...)})
}

// space reports whether Python's str.strip removes a character.
func space(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}
