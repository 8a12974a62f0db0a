package wording

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const top = "../.."

// skipped are files and directories that are not written by hand, are generated
// from files that are checked, or are about the retired words themselves.
var skipped = []string{
	".git", ".gitignore", "LICENSE", "go.mod", "go.sum",
	"bin", "build", "dist",
	"docs/commands", "docs/man", "docs/node-file.md", "docs/node-file.schema.json",
	"docs/glossary.md", "test/wording",
}

func TestNoRetiredWords(t *testing.T) {
	rules := readRules(t)
	count := 0
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.Name() == "testdata" || filepath.Ext(name) == ".txtar" ||
			slices.Contains(skipped, rel) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
			return nil // a binary
		}
		count++
		for _, f := range check(rules, rel, string(data)) {
			t.Error(f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 200 {
		t.Errorf("checked only %d files; is %s the top of the tree?", count, top)
	}
}

// A sample that holds every retired word fails once for each; what is to be
// written instead passes.
func TestRulesMatch(t *testing.T) {
	rules := readRules(t)
	if len(rules) < 50 {
		t.Fatalf("read only %d rules", len(rules))
	}
	for _, r := range rules {
		name := "a.md"
		if len(r.where) > 0 {
			name = "a" + r.where[0]
		}
		found := check([]rule{r}, name, "first line\nthen "+r.example+", and so on\n")
		if len(found) != 1 || !strings.HasPrefix(found[0], name+":2: ") {
			t.Errorf("retired.txt:%d: the example %q gives %q", r.line, r.example, found)
		}
		for _, f := range check(rules, name, r.use) {
			t.Errorf("retired.txt:%d: the replacement %q is retired itself: %s", r.line, r.use, f)
		}
	}
}

func TestCheck(t *testing.T) {
	rules := parse(`
# comment
for want of  | without |
mend(s|ed)?  | fix     | e.g. mends
is no        | is not a | except there is no; e.g. is no
lastWords    | logTail | .go
`, func(problem string) { t.Error(problem) })
	for _, c := range []struct {
		name, file, text, want string
	}{
		{"plain", "a.md", "x\nfails for want of memory\n", "a.md:2: for want of: write without"},
		{"across lines of a comment", "a.go", "// fails for want\n\t// of memory\n", "a.go:1: for want // of: write without"},
		{"across lines of a shell comment", "a.sh", "# for\n# want of\n", "a.sh:1: for # want of: write without"},
		{"upper case", "a.md", "Mends it", "a.md:1: Mends: write fix"},
		{"part of a word", "a.md", "amended, mending", ""},
		{"part of an identifier", "a.go", "recommends, to_mend", ""},
		{"an exception", "a.md", "there is no way", ""},
		{"beside an exception", "a.md", "there is no way, this is no way", "a.md:1: is no: write is not a"},
		{"an identifier where it is checked", "a.go", "lastWords(x)", "a.go:1: lastWords: write logTail"},
		{"an identifier elsewhere", "a.md", "lastWords(x)", ""},
		{"an identifier in another case", "a.go", "LastWords(x)", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(check(rules, c.file, c.text), "\n"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestParseReportsMistakes(t *testing.T) {
	for _, text := range []string{"word", "word | | ", "wo(rd | x |", "word | x | except a(", "words? | x |"} {
		failed := false
		parse(text, func(string) { failed = true })
		if !failed {
			t.Errorf("%q is accepted", text)
		}
	}
}

func readRules(t *testing.T) []rule {
	t.Helper()
	data, err := os.ReadFile("retired.txt")
	if err != nil {
		t.Fatal(err)
	}
	return parse(string(data), func(problem string) { t.Fatal(problem) })
}
