package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/test/needs"
)

// deliberate are the differences from Kolla that a configuration can show, with their
// reasons; docs/kolla.md has all. testdata/contract.py has a switch for each.
var deliberate = []struct{ name, reason string }{
	{"links below a path", "a service could put a link into its volume, and get the file that it leads to"},
	{"unknown keys", "a misspelled section must not be ignored"},
	{"defaults of other images", "only Kolla's scripts read them"},
	{"keys that are there twice", "one of them may be a mistake, and of a section all but the last would be lost"},
}

// TestContract applies random configurations with kollet-start and with an independent
// reading of the contract. KOLLET_CONTRACT_CASES is how many, and KOLLET_CONTRACT_SEED
// the seed of the first.
func TestContract(t *testing.T) {
	needs.Root(t)
	var names []string
	for _, d := range deliberate {
		names = append(names, d.name)
	}
	cases := randomCases(t, setting("KOLLET_CONTRACT_SEED", 1), setting("KOLLET_CONTRACT_CASES", 300))
	applied := 0
	for i, reason := range readContract(t, cases, names) {
		c := cases[i]
		if difference := c.difference(t, reason); difference != "" {
			t.Errorf("seed %d, %s:\n%s\n%s", c.seed, c.file, c.config, difference)
		}
		if reason == nil {
			applied++
		}
	}
	if applied < len(cases)/3 {
		t.Errorf("only %d of %d configurations can be applied", applied, len(cases))
	}
}

// A difference that no configuration shows any longer is not one.
func TestDeliberateDifferences(t *testing.T) {
	needs.Root(t)
	for _, without := range deliberate {
		t.Run(without.name, func(t *testing.T) {
			var others []string
			for _, d := range deliberate {
				if d != without {
					others = append(others, d.name)
				}
			}
			cases := randomCases(t, 1, 100)
			for i, reason := range readContract(t, cases, others) {
				if cases[i].difference(t, reason) != "" {
					return
				}
			}
			t.Errorf("no configuration shows it; the reason was: %s", without.reason)
		})
	}
}

func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// contractCase is a configuration, and two equal roots to apply it in.
type contractCase struct {
	seed         int
	file, config string
	ours, other  string
}

func randomCases(t *testing.T, first, n int) []contractCase {
	t.Helper()
	old := unix.Umask(0o022)
	t.Cleanup(func() { unix.Umask(old) })
	dir := t.TempDir()
	if fast, err := os.MkdirTemp("/dev/shm", "kollet-contract-"); err == nil { //nolint:usetesting // no disk to wait for
		t.Cleanup(func() { os.RemoveAll(fast) })
		dir = fast
	}
	var cases []contractCase
	for seed := range n {
		seed += first
		g := generator{rand.New(rand.NewPCG(uint64(seed), 0))}
		c := contractCase{seed: seed, ours: filepath.Join(dir, strconv.Itoa(seed), "a"), other: filepath.Join(dir, strconv.Itoa(seed), "b")}
		c.file, c.config = g.config()
		tree := g.tree()
		for _, root := range []string{c.ours, c.other} {
			plant(t, root, tree)
			for name, content := range map[string]string{"etc/passwd": passwd, "etc/group": group, "var/lib/kolla/config_files/" + c.file: c.config} {
				check(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o644))
			}
		}
		cases = append(cases, c)
	}
	return cases
}

// readContract applies the configurations in the other roots. It returns for each why
// it fails, or nil.
func readContract(t *testing.T, cases []contractCase, differences []string) []*string {
	t.Helper()
	var in bytes.Buffer
	for _, c := range cases {
		check(t, json.NewEncoder(&in).Encode([]any{c.other, differences}))
	}
	cmd := exec.Command(python, "testdata/contract.py")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	check(t, err)
	var reasons []*string
	for line := range strings.Lines(string(out)) {
		var reason *string
		check(t, json.Unmarshal([]byte(line), &reason))
		reasons = append(reasons, reason)
	}
	if len(reasons) != len(cases) {
		t.Fatalf("%d results for %d cases", len(reasons), len(cases))
	}
	return reasons
}

// difference applies a configuration and describes what differs from the other root.
// What a failure leaves behind is not compared: kollet-start checks more before it
// changes anything.
func (c contractCase) difference(t *testing.T, reason *string) string {
	t.Helper()
	names, err := readNames(c.ours)
	check(t, err)
	_, err = configure(c.ours, names)
	switch {
	case err != nil && reason != nil:
		return ""
	case err != nil:
		return "kollet-start fails, and Kolla does not: " + err.Error()
	case reason != nil:
		return "Kolla fails, and kollet-start does not: " + *reason
	}
	ours, other := harvest(t, c.ours), harvest(t, c.other)
	if ours == other {
		return ""
	}
	return "kollet-start:\n" + without(ours, other) + "Kolla:\n" + without(other, ours)
}

// without returns the lines of a text that another does not have.
func without(text, other string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains("\n"+other+"\n", "\n"+strings.TrimSuffix(line, "\n")+"\n") {
			lines.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return lines.String()
}
