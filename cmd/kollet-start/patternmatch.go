package main

import "errors"

// instruction is one of a program that Thompson's algorithm runs: it follows all
// possibilities at once, one character at a time, so no expression takes long.
type instruction struct {
	op     opcode
	one    class
	assert assert
	x, y   int // where to continue; y only of opSplit
}

type opcode byte

const (
	opMatch opcode = iota
	opOne
	opAssert
	opSplit
)

// assert is a condition on a position in a text.
type assert byte

const (
	atStart assert = iota
	atEnd
	atLastLine // or before its newline
	atBoundary // of a word
	notAtBoundary
)

func (a assert) holds(text []rune, at int) bool {
	switch a {
	case atStart:
		return at == 0
	case atEnd:
		return at == len(text)
	case atLastLine:
		return at == len(text) || at == len(text)-1 && text[at] == '\n'
	default:
		before := at > 0 && isWord(text[at-1])
		after := at < len(text) && isWord(text[at])
		return (before != after) == (a == atBoundary)
	}
}

// largestProgram limits repetitions of repetitions.
const largestProgram = 5000

var errTooLarge = errors.New("it is too large")

// compiler makes a program of an expression. Instructions continue with the next one
// unless they say otherwise.
type compiler struct {
	program []instruction
	err     error
}

// emit returns the place of an instruction.
func (c *compiler) emit(i instruction) int {
	at := len(c.program)
	i.x += at + 1 // of opSplit, where y is set later
	c.program = append(c.program, i)
	return at
}

func (c *compiler) node(n node) {
	if len(c.program) > largestProgram {
		c.err = errTooLarge
	}
	if c.err != nil {
		return
	}
	switch n.op {
	case nodeSequence:
		for _, sub := range n.subs {
			c.node(sub)
		}
	case nodeEither:
		c.either(n.subs)
	case nodeRepeat:
		c.repeat(n)
	case nodeOne:
		c.emit(instruction{op: opOne, one: n.one})
	case nodeAssert:
		c.emit(instruction{op: opAssert, assert: n.assert})
	}
}

func (c *compiler) either(subs []node) {
	var ends []int
	for i, sub := range subs {
		if i == len(subs)-1 {
			c.node(sub)
			break
		}
		split := c.emit(instruction{op: opSplit})
		c.node(sub)
		ends = append(ends, c.jump())
		c.program[split].y = len(c.program)
	}
	for _, end := range ends {
		c.program[end].x, c.program[end].y = len(c.program), len(c.program)
	}
}

// jump is a split of which both ways will lead to the same place.
func (c *compiler) jump() int { return c.emit(instruction{op: opSplit}) }

func (c *compiler) repeat(n node) {
	for range n.min {
		if c.node(n.subs[0]); c.err != nil {
			return
		}
	}
	if n.max < 0 {
		split := c.emit(instruction{op: opSplit})
		c.node(n.subs[0])
		back := c.jump()
		c.program[back].x, c.program[back].y = split, split
		c.program[split].y = len(c.program)
		return
	}
	var splits []int
	for range n.max - n.min {
		splits = append(splits, c.emit(instruction{op: opSplit}))
		if c.node(n.subs[0]); c.err != nil {
			return
		}
	}
	for _, split := range splits {
		c.program[split].y = len(c.program)
	}
}

// search reports whether the pattern matches anywhere in a text.
func (p pattern) search(s string) bool {
	var text []rune
	for s != "" {
		c, n := character(s)
		text, s = append(text, c), s[n:]
	}
	r := searching{program: p.program, text: text, seen: make([]int, len(p.program))}
	for at := 0; at <= len(text); at++ {
		reached := r.next
		r.next = nil
		if r.step(reached, at) {
			return true
		}
	}
	return false
}

// searching is where a search stands.
type searching struct {
	program []instruction
	text    []rune
	next    []int // instructions that have matched up to the position
	seen    []int // for each instruction the last position at which it was reached, plus 1
}

// step follows everything that was reached at a position, and a match that begins
// there, through the character at the position.
func (s *searching) step(reached []int, at int) (matched bool) {
	todo := append(reached, 0)
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s.seen[pc] == at+1 {
			continue
		}
		s.seen[pc] = at + 1
		switch i := s.program[pc]; i.op {
		case opMatch:
			return true
		case opSplit:
			todo = append(todo, i.x, i.y)
		case opAssert:
			if i.assert.holds(s.text, at) {
				todo = append(todo, i.x)
			}
		case opOne:
			if at < len(s.text) && i.one.has(s.text[at]) {
				s.next = append(s.next, i.x)
			}
		}
	}
	return false
}
