package configs

import (
	"regexp"
	"strconv"
	"strings"
	"text/template/parse"
)

// lines are the lines of a template that the lines of its result come from; nil if they are
// the same.
type lines []int

// of returns the template's line for one of the result; both count from 1.
func (l lines) of(line int) int {
	if l == nil || line < 1 || line > len(l) {
		return line
	}
	return l[line-1]
}

// trace renders a template for people, and returns which lines the result comes from. The
// template's own text is marked with its lines before it is executed, and the marks are removed
// from the result.
func (r *Renderer) trace(t text) (string, lines, error) {
	if !strings.Contains(t.body, "{{") {
		return t.body, nil, nil
	}
	x := r.execution(t, public)
	tmpl, err := x.parse()
	if err != nil {
		return "", nil, x.locate(err)
	}
	for _, t := range tmpl.Templates() {
		if t.Tree != nil {
			mark(t.Root, x.body)
		}
	}
	var out strings.Builder
	if err := tmpl.Execute(&out, x.data()); err != nil {
		return "", nil, x.locate(err)
	}
	body, lines := unmark(out.String())
	return body, lines, nil
}

// A mark is the number of a line between these, which no config file contains.
const markBegin, markEnd = "\x00line ", "\x00"

var marks = regexp.MustCompile(markBegin + "([0-9]+)" + markEnd)

// mark marks where each line of a template's text begins, and where a text follows an action.
func mark(node parse.Node, body string) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, child := range n.Nodes {
				mark(child, body)
			}
		}
	case *parse.TextNode:
		line := 1 + strings.Count(body[:n.Pos], "\n")
		var marked strings.Builder
		for i, text := range strings.SplitAfter(string(n.Text), "\n") {
			marked.WriteString(markBegin + strconv.Itoa(line+i) + markEnd + text)
		}
		n.Text = []byte(marked.String())
	case *parse.IfNode:
		mark(n.List, body)
		mark(n.ElseList, body)
	case *parse.RangeNode:
		mark(n.List, body)
		mark(n.ElseList, body)
	case *parse.WithNode:
		mark(n.List, body)
		mark(n.ElseList, body)
	}
}

// unmark removes the marks. The last one before the first character of a line says where the
// line comes from; one without a mark comes from where the line above it does.
func unmark(marked string) (string, lines) {
	var body strings.Builder
	var from lines
	current := 1
	for text := range strings.SplitAfterSeq(marked, "\n") {
		for at := marks.FindStringSubmatchIndex(text); at != nil && at[0] == 0; at = marks.FindStringSubmatchIndex(text) {
			current, _ = strconv.Atoi(text[at[2]:at[3]])
			text = text[at[1]:]
		}
		from = append(from, current)
		body.WriteString(marks.ReplaceAllLiteralString(text, ""))
	}
	return body.String(), from
}
