package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// pattern is a regular expression of Python's re that is searched in a path. What
// needs backtracking is refused: look-around and back references.
//
// Package regexp would make kollet-start a seventh larger, and more than 2 MiB. It has
// other rules, too: $ matches before a final newline in Python, \w all letters, and {,3}
// repeats.
type pattern struct {
	program []instruction
}

// compilePattern parses a regular expression. Its errors name what is refused.
func compilePattern(expr string) (pattern, error) {
	p := patternParser{rest: expr}
	n, err := p.alternatives(0)
	if err == nil && p.rest != "" {
		err = errors.New("a parenthesis is not opened")
	}
	var c compiler
	if err == nil {
		c.node(n)
		c.emit(instruction{op: opMatch})
		err = c.err
	}
	if err != nil {
		return pattern{}, fmt.Errorf("%q: %w", expr, err)
	}
	return pattern{c.program}, nil
}

// node is a part of a regular expression.
type node struct {
	op       nodeOp
	one      class  // of a nodeOne
	assert   assert // of a nodeAssert
	subs     []node
	min, max int // of a nodeRepeat; max is unlimited if negative
}

type nodeOp byte

const (
	nodeSequence nodeOp = iota
	nodeEither
	nodeRepeat
	nodeOne
	nodeAssert
)

type patternParser struct{ rest string }

// take skips prefix if it comes next.
func (p *patternParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

// next returns the next character, which must exist.
func (p *patternParser) next() rune {
	c, n := character(p.rest)
	p.rest = p.rest[n:]
	return c
}

func (p *patternParser) alternatives(depth int) (node, error) {
	if depth > deepest {
		return node{}, errors.New("nested too deeply")
	}
	either := node{op: nodeEither}
	for {
		n, err := p.sequence(depth)
		if err != nil {
			return node{}, err
		}
		either.subs = append(either.subs, n)
		if !p.take("|") {
			return either, nil
		}
	}
}

func (p *patternParser) sequence(depth int) (node, error) {
	var seq node
	for p.rest != "" && p.rest[0] != '|' && p.rest[0] != ')' {
		if p.take("(?#") {
			_, rest, closed := strings.Cut(p.rest, ")")
			if !closed {
				return node{}, errUnclosed
			}
			p.rest = rest
			continue
		}
		if _, _, ok, err := p.repetition(); ok || err != nil {
			return node{}, errors.Join(err, errNothing)
		}
		n, err := p.item(depth)
		if err != nil {
			return node{}, err
		}
		if n, err = p.repeated(n); err != nil {
			return node{}, err
		}
		seq.subs = append(seq.subs, n)
	}
	return seq, nil
}

var (
	errUnclosed = errors.New("a parenthesis is not closed")
	errNothing  = errors.New("there is nothing to repeat")
)

// repeated reads the repetition that follows an item.
func (p *patternParser) repeated(n node) (node, error) {
	least, most, ok, err := p.repetition()
	if !ok || err != nil {
		return n, err
	}
	if n.op == nodeAssert {
		return node{}, errNothing
	}
	if p.take("+") {
		return node{}, errors.New("possessive repetition is not supported")
	}
	p.take("?") // as few as possible: the same paths match
	if _, _, again, _ := p.repetition(); again {
		return node{}, errors.New("a repetition is repeated")
	}
	return node{op: nodeRepeat, subs: []node{n}, min: least, max: most}, nil
}

// repetition reads one of * + ? {3} {3,} {,3} {2,3}. Other braces are literal.
func (p *patternParser) repetition() (least, most int, ok bool, err error) {
	switch {
	case p.take("*"):
		return 0, -1, true, nil
	case p.take("+"):
		return 1, -1, true, nil
	case p.take("?"):
		return 0, 1, true, nil
	}
	inner, ok := strings.CutPrefix(p.rest, "{")
	inner, after, closed := strings.Cut(inner, "}")
	low, high, isRange := strings.Cut(inner, ",")
	if !ok || !closed || inner == "" || strings.Trim(low, "0123456789") != "" || strings.Trim(high, "0123456789") != "" {
		return 0, 0, false, nil
	}
	p.rest = after
	if least, err = count(low, 0); err != nil {
		return 0, 0, true, err
	}
	if !isRange {
		return least, least, true, nil
	}
	if most, err = count(high, -1); err == nil && high != "" && most < least {
		err = errors.New("a repetition has its limits in the wrong order")
	}
	return least, most, true, err
}

func count(digits string, absent int) (int, error) {
	if digits == "" {
		return absent, nil
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return 0, errTooLarge
	}
	return int(n), nil
}

// item reads what a repetition can follow.
func (p *patternParser) item(depth int) (node, error) {
	if p.take("(") {
		return p.group(depth)
	}
	if p.take("[") {
		c, err := p.set()
		return node{op: nodeOne, one: c}, err
	}
	switch c := p.next(); c {
	case '.':
		return node{op: nodeOne, one: class{ranges: []runes{{'\n', '\n'}}, negated: true}}, nil
	case '^':
		return node{op: nodeAssert, assert: atStart}, nil
	case '$':
		return node{op: nodeAssert, assert: atLastLine}, nil
	case '\\':
		return p.escape()
	default:
		return one(c), nil
	}
}

func one(c rune) node { return node{op: nodeOne, one: class{ranges: []runes{{c, c}}}} }

func (p *patternParser) group(depth int) (node, error) {
	if p.take("?P<") {
		name, rest, ok := strings.Cut(p.rest, ">")
		if !ok || name == "" {
			return node{}, errors.New("the name of a group is missing")
		}
		p.rest = rest
	} else if !p.take("?:") && p.take("?") {
		return node{}, refusedGroup(p.rest)
	}
	n, err := p.alternatives(depth + 1)
	if err == nil && !p.take(")") {
		err = errUnclosed
	}
	return n, err
}

// refusedGroup tells what a group that begins with a question mark is.
func refusedGroup(rest string) error {
	what := "this kind of group is"
	switch {
	case strings.HasPrefix(rest, "P="):
		what = "back references are"
	case rest != "" && strings.Contains("=!<", rest[:1]):
		what = "look-around is"
	case rest != "" && strings.Contains("aiLmsux-", rest[:1]):
		what = "flags are"
	case rest != "" && rest[0] == '(':
		what = "conditions are"
	}
	return fmt.Errorf("%s not supported", what)
}
