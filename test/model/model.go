// Package model has a model of the upgrade protocol, upgrade.pml. Its test has spin
// search every run of it, and every run of a protocol that lacks one of its
// precautions. A Verifier says whether the model allows the records of a journal.
package model

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed *.pml
var files embed.FS

// build has spin write the verifier of a model into a directory, and compiles it.
func build(ctx context.Context, dir string, macros, options []string) (program string, err error) {
	for _, name := range []string{"upgrade.pml", "journal.pml"} {
		data, err := files.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	if err := run(ctx, dir, "spin", append(define(macros), "-a", "upgrade.pml")...); err != nil {
		return "", err
	}
	return filepath.Join(dir, verifierProgram), run(ctx, dir, "gcc", append(define(options), "-O2", "-w", "-o", verifierProgram, "pan.c")...)
}

const verifierProgram = "pan" // as spin(1) calls it

func define(names []string) []string {
	var flags []string
	for _, name := range names {
		flags = append(flags, "-D"+name)
	}
	return flags
}

func run(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w; make deps installs it", err)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// search runs a verifier. violated is the assertion that a run violates, or what else is
// wrong with one; it is empty if nothing is wrong with any run.
func search(ctx context.Context, program string, env []string, args ...string) (violated, report string, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = filepath.Dir(program), append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	report = string(out)
	if err != nil {
		return "", report, fmt.Errorf("%s: %w\n%s", program, err, report)
	}
	if _, problem, found := strings.Cut(report, "pan:1: "); found {
		violated, _, _ = strings.Cut(problem, " (at depth ")
		return violated, report, nil
	}
	if !strings.Contains(report, "errors: 0") || strings.Contains(report, "Search not completed") || strings.Contains(report, "error: ") {
		return "", report, fmt.Errorf("%s: not all runs were searched\n%s", program, report)
	}
	return "", report, nil
}
