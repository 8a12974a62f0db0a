package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// class is a set of characters.
type class struct {
	ranges  []runes
	tests   []func(rune) bool // such as \d
	negated bool
}

type runes struct{ low, high rune }

func (c class) has(r rune) bool {
	for _, x := range c.ranges {
		if x.low <= r && r <= x.high {
			return !c.negated
		}
	}
	for _, test := range c.tests {
		if test(r) {
			return !c.negated
		}
	}
	return c.negated
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// category returns Python's class of a letter: \d, \s or \w, or its complement.
func category(letter byte) (func(rune) bool, bool) {
	test, ok := map[byte]func(rune) bool{'d': unicode.IsDigit, 's': isSpace, 'w': isWord}[letter|0x20]
	if !ok || letter >= 'a' {
		return test, ok
	}
	return func(r rune) bool { return !test(r) }, true
}

// set reads what follows an opening bracket.
func (p *patternParser) set() (class, error) {
	c := class{negated: p.take("^")}
	for first := true; p.rest != ""; first = false {
		if !first && p.take("]") {
			return c, nil
		}
		low, test, err := p.member()
		if err != nil {
			return class{}, err
		}
		high := low
		if strings.HasPrefix(p.rest, "-") && !strings.HasPrefix(p.rest, "-]") && len(p.rest) > 1 {
			p.take("-")
			var other func(rune) bool
			if high, other, err = p.member(); err != nil {
				return class{}, err
			}
			if test != nil || other != nil || high < low {
				return class{}, errors.New("a range in brackets is wrong")
			}
		}
		if test != nil {
			c.tests = append(c.tests, test)
		} else {
			c.ranges = append(c.ranges, runes{low, high})
		}
	}
	return class{}, errors.New("a bracket is not closed")
}

// member reads one character of a set, or a class such as \d.
func (p *patternParser) member() (rune, func(rune) bool, error) {
	c := p.next()
	if c != '\\' {
		return c, nil, nil
	}
	if p.rest != "" {
		if test, ok := category(p.rest[0]); ok {
			p.next()
			return 0, test, nil
		}
	}
	if p.take("b") {
		return '\b', nil, nil
	}
	c, err := p.escaped()
	return c, nil, err
}

// escape reads what follows a backslash outside of brackets.
func (p *patternParser) escape() (node, error) {
	if p.rest != "" {
		letter := p.rest[0]
		if test, ok := category(letter); ok {
			p.next()
			return node{op: nodeOne, one: class{tests: []func(rune) bool{test}}}, nil
		}
		if i := strings.IndexByte("AZbB", letter); i >= 0 {
			p.next()
			return node{op: nodeAssert, assert: []assert{atStart, atEnd, atBoundary, notAtBoundary}[i]}, nil
		}
	}
	c, err := p.escaped()
	return one(c), err
}

// escaped reads what follows the backslash of a single character.
func (p *patternParser) escaped() (rune, error) {
	if p.rest == "" {
		return 0, errors.New("it ends in a backslash")
	}
	c := p.next()
	if i := strings.IndexRune("afnrtv", c); i >= 0 {
		return rune("\a\f\n\r\t\v"[i]), nil
	}
	switch {
	case c == 'x':
		return p.digits(2, 16)
	case c == 'u':
		return p.digits(4, 16)
	case c == 'U':
		return p.digits(8, 16)
	case c >= '0' && c <= '9':
		return p.octal(c)
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		return 0, fmt.Errorf("the escape \\%c is not supported", c)
	}
	return c, nil
}

// octal reads the rest of up to three digits of which the first is zero, or of exactly
// three. Other digits are a back reference.
func (p *patternParser) octal(first rune) (rune, error) {
	n := 0
	for n < 2 && n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '7' {
		n++
	}
	if first != '0' && (n < 2 || first > '3') {
		return 0, errors.New("back references are not supported")
	}
	p.rest = string(first) + p.rest
	return p.digits(n+1, 8)
}

func (p *patternParser) digits(n, base int) (rune, error) {
	if len(p.rest) < n || strings.ContainsAny(p.rest[:n], "+-_") {
		return 0, errors.New("an escape is incomplete")
	}
	c, err := strconv.ParseUint(p.rest[:n], base, 32)
	if err != nil || c > unicode.MaxRune {
		return 0, errors.New("an escape is wrong")
	}
	p.rest = p.rest[n:]
	return rune(c), nil
}
