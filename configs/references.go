package configs

import (
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// references is what a template refers to, in branches that are not executed too.
type references struct {
	chains  []chain
	vars    map[string]bool
	allVars bool // .vars as a whole, so any of them
}

// chain is a reference such as .vars.virt_type and its line.
type chain struct {
	names []string
	line  int
}

// chain returns the reference in a line that contains the name.
func (r references) chain(line int, name string) []string {
	for _, c := range r.chains {
		if c.line == line && slices.Contains(c.names, name) {
			return c.names
		}
	}
	return nil
}

func referencesOf(t *template.Template, body string) references {
	r := references{vars: map[string]bool{}}
	for _, t := range t.Templates() {
		if t.Tree != nil {
			r.walk(t.Root, body)
		}
	}
	return r
}

func (r *references) walk(node parse.Node, body string) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, child := range n.Nodes {
				r.walk(child, body)
			}
		}
	case *parse.ActionNode:
		r.walk(n.Pipe, body)
	case *parse.IfNode:
		r.branch(&n.BranchNode, body)
	case *parse.RangeNode:
		r.branch(&n.BranchNode, body)
	case *parse.WithNode:
		r.branch(&n.BranchNode, body)
	case *parse.TemplateNode:
		r.walk(n.Pipe, body)
	case *parse.PipeNode:
		if n != nil {
			for _, command := range n.Cmds {
				r.command(command, body)
			}
		}
	case *parse.ChainNode:
		r.walk(n.Node, body)
	case *parse.FieldNode:
		r.field(n.Ident, n.Pos, body)
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			r.field(n.Ident[1:], n.Pos, body)
		}
	}
}

func (r *references) branch(n *parse.BranchNode, body string) {
	r.walk(n.Pipe, body)
	r.walk(n.List, body)
	r.walk(n.ElseList, body)
}

// command treats `get .vars "x"`, hasKey and index as references to one variable
// instead of all.
func (r *references) command(n *parse.CommandNode, body string) {
	if name, ok := lookup(n); ok {
		r.vars[name] = true
		return
	}
	for _, arg := range n.Args {
		r.walk(arg, body)
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

func (r *references) field(names []string, at parse.Pos, body string) {
	r.chains = append(r.chains, chain{names, 1 + strings.Count(body[:at], "\n")})
	switch {
	case names[0] == "vars" && len(names) > 1:
		r.vars[names[1]] = true
	case names[0] == "vars":
		r.allVars = true
	}
}
