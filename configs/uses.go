package configs

import (
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// uses is what a template refers to, whether or not it gets there.
type uses struct {
	chains  []chain
	vars    map[string]bool
	allVars bool // .vars as a whole: any of them
}

// chain is a reference such as .vars.virt_type, and its line.
type chain struct {
	names []string
	line  int
}

// chain returns the reference in a line that has the name in it.
func (u uses) chain(line int, name string) []string {
	for _, c := range u.chains {
		if c.line == line && slices.Contains(c.names, name) {
			return c.names
		}
	}
	return nil
}

func usesOf(t *template.Template, body string) uses {
	u := uses{vars: map[string]bool{}}
	for _, t := range t.Templates() {
		if t.Tree != nil {
			u.walk(t.Root, body)
		}
	}
	return u
}

func (u *uses) walk(node parse.Node, body string) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, child := range n.Nodes {
				u.walk(child, body)
			}
		}
	case *parse.ActionNode:
		u.walk(n.Pipe, body)
	case *parse.IfNode:
		u.branch(&n.BranchNode, body)
	case *parse.RangeNode:
		u.branch(&n.BranchNode, body)
	case *parse.WithNode:
		u.branch(&n.BranchNode, body)
	case *parse.TemplateNode:
		u.walk(n.Pipe, body)
	case *parse.PipeNode:
		if n != nil {
			for _, command := range n.Cmds {
				u.command(command, body)
			}
		}
	case *parse.ChainNode:
		u.walk(n.Node, body)
	case *parse.FieldNode:
		u.field(n.Ident, n.Pos, body)
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			u.field(n.Ident[1:], n.Pos, body)
		}
	}
}

func (u *uses) branch(n *parse.BranchNode, body string) {
	u.walk(n.Pipe, body)
	u.walk(n.List, body)
	u.walk(n.ElseList, body)
}

// command sees that `get .vars "x"` and its like use one variable and not all.
func (u *uses) command(n *parse.CommandNode, body string) {
	if name, ok := lookup(n); ok {
		u.vars[name] = true
		return
	}
	for _, arg := range n.Args {
		u.walk(arg, body)
	}
}

func lookup(n *parse.CommandNode) (string, bool) {
	if len(n.Args) != 3 {
		return "", false
	}
	function, ok := n.Args[0].(*parse.IdentifierNode)
	if !ok || !slices.Contains([]string{"get", "hasKey", "index"}, function.Ident) {
		return "", false
	}
	name, ok := n.Args[2].(*parse.StringNode)
	if of := n.Args[1].String(); !ok || of != ".vars" && of != "$.vars" {
		return "", false
	}
	return name.Text, true
}

func (u *uses) field(names []string, at parse.Pos, body string) {
	u.chains = append(u.chains, chain{names, 1 + strings.Count(body[:at], "\n")})
	switch {
	case names[0] == "vars" && len(names) > 1:
		u.vars[names[1]] = true
	case names[0] == "vars":
		u.allVars = true
	}
}
