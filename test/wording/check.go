package wording

import (
	"fmt"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// rule is one line of retired.txt.
type rule struct {
	line    int
	word    *regexp.Regexp
	hints   []string // every match contains one of them, in lower case; empty: unknown
	use     string
	except  *regexp.Regexp // matches around the word in which it is right
	where   []string       // file name extensions; empty: all files
	example string         // a text that the word matches
}

// plain is a word or phrase that is its own example.
var plain = regexp.MustCompile(`^[\w' :-]+$`)

// parse reads rules: lines "word | use | notes", where notes are separated by
// semicolons: file name extensions, "except REGEXP", "e.g. EXAMPLE". Empty lines
// and lines that begin with # are ignored.
func parse(text string, fail func(problem string)) (rules []rule) {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r, err := parseRule(line)
		if err != nil {
			fail(fmt.Sprintf("retired.txt:%d: %v", i+1, err))
			continue
		}
		r.line = i + 1
		rules = append(rules, r)
	}
	return rules
}

func parseRule(line string) (r rule, err error) {
	fields := regexp.MustCompile(` +\|(?: +|$)`).Split(line, 3)
	if len(fields) < 3 || fields[0] == "" || strings.TrimSpace(fields[1]) == "" {
		return r, fmt.Errorf("%q: expected word | use | notes", line)
	}
	if r.word, err = compile(fields[0]); err != nil {
		return r, err
	}
	if r.hints, err = hints(fields[0]); err != nil {
		return r, err
	}
	r.use = strings.TrimSpace(fields[1])
	if plain.MatchString(fields[0]) {
		r.example = fields[0]
	}
	for note := range strings.SplitSeq(fields[2], ";") {
		note = strings.TrimSpace(note)
		if expr, ok := strings.CutPrefix(note, "except "); ok {
			if r.except, err = compile(expr); err != nil {
				return r, err
			}
		} else if example, ok := strings.CutPrefix(note, "e.g. "); ok {
			r.example = example
		} else if note != "" {
			r.where = append(r.where, note)
		}
	}
	if r.example == "" {
		return r, fmt.Errorf("%q is a pattern and needs an example: e.g. …", fields[0])
	}
	return r, nil
}

// compile makes a pattern match whole words, in any case unless it has an
// upper-case letter, and across the line breaks of comments.
func compile(expr string) (*regexp.Regexp, error) {
	spaced := strings.ReplaceAll(expr, " ", `[\s/#]+`)
	spaced = `\b(?:` + spaced + `)`
	if ends := expr[len(expr)-1]; ends != ':' && ends != '(' {
		spaced = `(?:` + spaced + `)\b`
	}
	if strings.ToLower(expr) == expr {
		spaced = "(?i)" + spaced
	}
	return regexp.Compile(spaced)
}

// hints returns texts of which each match of a pattern contains at least one.
// Searching a file for them is a hundred times faster than for the pattern.
func hints(expr string) ([]string, error) {
	parsed, err := syntax.Parse(strings.ToLower(expr), syntax.Perl)
	if err != nil {
		return nil, err
	}
	return literals(parsed), nil
}

func literals(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		words := strings.Fields(string(re.Rune)) // a space may match a line break
		longest := ""
		for _, w := range words {
			if len(w) > len(longest) {
				longest = w
			}
		}
		if longest != "" {
			return []string{longest}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literals(re.Sub[0])
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if l := literals(sub); shortest(l) > shortest(best) {
				best = l
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			l := literals(sub)
			if l == nil {
				return nil
			}
			all = append(all, l...)
		}
		return all
	}
	return nil
}

// shortest returns the length of the shortest text, 0 if there is no text.
func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	n := len(texts[0])
	for _, t := range texts {
		n = min(n, len(t))
	}
	return n
}

// check returns the retired words in a file, as "file:line: word: write use".
func check(rules []rule, name, text string) (found []string) {
	lower := strings.ToLower(text)
	for _, r := range rules {
		if len(r.where) > 0 && !slices.Contains(r.where, kind(name)) {
			continue
		}
		if len(r.hints) > 0 && !slices.ContainsFunc(r.hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
			continue
		}
		var right [][]int
		if r.except != nil {
			right = r.except.FindAllStringIndex(text, -1)
		}
		for _, at := range r.word.FindAllStringIndex(text, -1) {
			if slices.ContainsFunc(right, func(ok []int) bool { return ok[0] <= at[0] && at[1] <= ok[1] }) {
				continue
			}
			found = append(found, fmt.Sprintf("%s:%d: %s: write %s", name,
				1+strings.Count(text[:at[0]], "\n"), strings.Join(strings.Fields(text[at[0]:at[1]]), " "), r.use))
		}
	}
	return found
}

// kind is what a rule's "where" names: a file name's extension, or the whole
// name if it has none.
func kind(name string) string {
	if ext := path.Ext(name); ext != "" {
		return ext
	}
	return path.Base(name)
}
