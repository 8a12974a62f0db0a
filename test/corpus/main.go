// Corpus keeps what fuzzing found: of the inputs in Go's cache, those with which a fuzz target
// reaches code that it does not reach with its seeds and its committed inputs, or reaches it
// at least twice as often. It copies them to testdata/fuzz, from where go test runs them each
// time.
//
//	corpus DIRECTORY TARGET
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: corpus DIRECTORY TARGET, such as ./configs/ini FuzzParse")
		os.Exit(2)
	}
	if err := keep(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "corpus: %s %s: %v\n", os.Args[1], os.Args[2], err)
		os.Exit(1)
	}
}

// keep copies inputs, the smallest first.
func keep(dir, target string) error {
	t, err := open(dir, target)
	if err != nil {
		return err
	}
	defer os.RemoveAll(t.scratch)
	found, err := inputs(t.cache)
	if err != nil {
		return err
	}
	reached, err := t.baseline()
	if err != nil {
		return fmt.Errorf("run what is committed: %w", err)
	}
	if err := os.MkdirAll(t.committed, 0o755); err != nil {
		return err
	}
	kept := 0
	for _, in := range found {
		more, err := t.adds(in, reached)
		if err != nil {
			return err
		}
		kept += more
	}
	_ = os.Remove(t.committed) // if it is empty
	fmt.Printf("corpus: %s %s: kept %d of %d\n", dir, target, kept, len(found))
	return nil
}

// fuzzTarget is a target, its program and where its inputs are.
type fuzzTarget struct {
	dir, name, scratch, program string
	cache, committed            string
}

// open compiles the test of a package so that it counts which code of this module it reaches.
func open(dir, name string) (*fuzzTarget, error) {
	pkg, err := output("go", "list", dir)
	if err != nil {
		return nil, err
	}
	module, err := output("go", "list", "-m")
	if err != nil {
		return nil, err
	}
	cache, err := output("go", "env", "GOCACHE")
	if err != nil {
		return nil, err
	}
	deps, err := output("go", "list", "-deps", dir)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(strings.Fields(deps), func(p string) bool { return !strings.HasPrefix(p, module+"/") })
	scratch, err := os.MkdirTemp("", "corpus-")
	if err != nil {
		return nil, err
	}
	t := &fuzzTarget{
		dir: dir, name: name, scratch: scratch, program: filepath.Join(scratch, "program"),
		cache: filepath.Join(cache, "fuzz", pkg, name), committed: filepath.Join(dir, "testdata", "fuzz", name),
	}
	_, err = output("go", "test", "-c", "-covermode=count", "-coverpkg="+strings.Join(own, ","), "-o", t.program, dir)
	return t, err
}

// inputs returns the paths of a directory's files, the smallest first; none if there is no
// directory.
func inputs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	sizes := map[string]int64{}
	var all []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, e.Name())
		all, sizes[path] = append(all, path), info.Size()
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(sizes[a], sizes[b]), cmp.Compare(a, b)) })
	return all, nil
}

// adds commits an input if it reaches more, and returns how many it committed.
func (t *fuzzTarget) adds(input string, reached map[string]int) (int, error) {
	copied := filepath.Join(t.committed, filepath.Base(input))
	if _, err := os.Stat(copied); err == nil {
		return 0, nil
	}
	content, err := os.ReadFile(input)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(copied, content, 0o644); err != nil {
		return 0, err
	}
	more, err := t.extends(reached, filepath.Base(input))
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", copied, err)
	}
	if more {
		return 1, nil
	}
	return 0, os.Remove(copied)
}

// baseline returns what the seeds and the committed inputs reach, each by itself.
func (t *fuzzTarget) baseline() (map[string]int, error) {
	cmd := exec.Command(t.program, "-test.v", "-test.run", "^"+t.name+"$")
	cmd.Dir = t.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	reached := map[string]int{}
	for line := range strings.Lines(string(out)) {
		if input, ok := strings.CutPrefix(strings.TrimSpace(line), "=== RUN   "+t.name+"/"); ok {
			if _, err := t.extends(reached, input); err != nil {
				return nil, err
			}
		}
	}
	return reached, nil
}

// extends adds what an input reaches, and reports whether that is more.
func (t *fuzzTarget) extends(reached map[string]int, input string) (more bool, err error) {
	blocks, err := t.reaches("^" + t.name + "$/^" + input + "$")
	for b, often := range blocks {
		if often > reached[b] {
			more, reached[b] = true, often
		}
	}
	return more, err
}

// reaches returns the blocks of code that tests with matching names execute, and how often
// each does: the number of bits of the count.
func (t *fuzzTarget) reaches(tests string) (map[string]int, error) {
	profile := filepath.Join(t.scratch, "profile")
	cmd := exec.Command(t.program, "-test.run", tests, "-test.coverprofile", profile)
	cmd.Dir = t.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	blocks := map[string]int{}
	for line := range bytes.Lines(text) {
		var block string
		var statements int
		var count uint
		if n, _ := fmt.Sscan(string(line), &block, &statements, &count); n == 3 {
			blocks[block] = bits.Len(count)
		}
	}
	return blocks, nil
}

func output(name string, args ...string) (string, error) {
	var stderr strings.Builder
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
