package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestScriptOf(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(content), 0o755))
		return path
	}
	const elf = "\x7fELF\x02\x01"
	python3 := file("bin/python3", elf)
	venv := file("venv/bin/python3.11", elf)
	file("bin/python3.9", "#!/bin/sh\nexec python3 \"$@\"\n")
	shim := filepath.Join(dir, "bin/python3.9")
	other := file("bin/ruby", elf)
	env := file("bin/env", elf)
	directory := filepath.Join(dir, "bin")
	environment := []string{"PATH=/nowhere:" + directory}
	app := file("srv/app.py", "import sys\n")
	archive := file("srv/app.pyz", "PK\x03\x04")

	for _, tc := range []struct {
		name, content string   // of the program; "": argv[0] is it
		argv          []string // of the program
		want          string   // interpreter: words of its command line, with S for the script
		renamed       bool
		err           string
	}{
		{name: "console script", content: "#!" + python3 + "\nimport sys\n", argv: []string{"nova-compute", "--config-file", "/etc/nova/nova.conf"},
			want: python3 + ": " + python3 + " S --config-file /etc/nova/nova.conf", renamed: true},
		{name: "blanks, as Debian's helper writes them", content: "#! " + python3 + " \t\n", argv: []string{"x"}, want: python3 + ": " + python3 + " S", renamed: true},
		{name: "virtual environment", content: "#!" + venv + "\n", argv: []string{"x"}, want: venv + ": " + venv + " S", renamed: true},
		{name: "options", content: "#!" + python3 + " -sE\n", argv: []string{"x", "y"}, want: python3 + ": " + python3 + " -sE S y", renamed: true},
		{name: "env", content: "#!" + env + " python3\n", argv: []string{"x", "y"}, want: python3 + ": python3 S y"},
		{name: "interpreter and script", argv: []string{python3, "-u", "-B", app, "-v"}, want: python3 + ": " + python3 + " -u -B S -v"},
		{name: "no line end", content: "#!" + python3, argv: []string{"x"}, want: python3 + ": " + python3 + " S", renamed: true},

		{name: "without site", content: "#!" + python3 + " -S\n", argv: []string{"x"}, err: "not Python with simple options"},
		{name: "option with a value", content: "#!" + python3 + " -Xdev\n", argv: []string{"x"}, err: "not Python with simple options"},
		{name: "env with options", content: "#!" + env + " -S python3 -u\n", argv: []string{"x"}, err: "not Python with simple options"},
		{name: "env with a variable", content: "#!" + env + " A=1 python3\n", argv: []string{"x"}, err: "not Python with simple options"},
		{name: "env without Python", content: "#!" + env + " python3.12\n", argv: []string{"x"}, err: "python3.12: no such file in PATH"},
		{name: "shell", content: "#!/bin/sh\nexec nova-compute\n", argv: []string{"kolla_start"}, err: "which is not Python"},
		{name: "Python 2", content: "#!/usr/bin/python2\n", argv: []string{"x"}, err: "which is not Python"},
		{name: "Python 2.7", content: "#!/usr/bin/python2.7\n", argv: []string{"x"}, err: "which is not Python"},
		{name: "named like it", content: "#!/usr/bin/python3-config\n", argv: []string{"x"}, err: "which is not Python"},
		{name: "nothing after #!", content: "#!\n", argv: []string{"x"}, err: "which is not Python"},
		{name: "interpreter that is a script", content: "#!" + shim + "\n", argv: []string{"x"}, err: shim + " is not the interpreter itself"},
		{name: "missing interpreter", content: "#!/nowhere/python3\n", argv: []string{"x"}, err: "/nowhere/python3 is not the interpreter itself"},
		{name: "another program, as dumb-init or sudo", argv: []string{other, "--", "kolla_start"}, err: other + " is not a Python script"},
		{name: "module", argv: []string{python3, "-m", "http.server"}, err: "the command names no script"},
		{name: "command", argv: []string{python3, "-c", "1"}, err: "the command names no script"},
		{name: "archive", argv: []string{python3, archive}, err: "the command names no script"},
		{name: "directory", argv: []string{python3, directory}, err: "the command names no script"},
		{name: "interactive", argv: []string{python3}, err: "the command names no script"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			program, path := tc.argv[0], app
			if tc.content != "" {
				program = file("script", tc.content)
				path = program
			}
			got, err := scriptOf(program, tc.argv, environment)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want %q", err, tc.err)
				}
				return
			}
			check(t, err)
			if got.path != path || got.renamed != tc.renamed {
				t.Errorf("script %s, renamed %v; want %s, %v", got.path, got.renamed, path, tc.renamed)
			}
			if line := got.interpreter + ": " + strings.Join(got.words("S"), " "); line != tc.want {
				t.Errorf("got  %s\nwant %s", line, tc.want)
			}
		})
	}
}

func TestPadded(t *testing.T) {
	for _, tc := range []struct {
		name   string
		length int
		want   string
	}{{"/a", 4, "///a"}, {"/a", 2, "/a"}, {"/abc", 2, "/abc"}} {
		if got := padded(tc.name, tc.length); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

func TestPyBytes(t *testing.T) {
	got := pyList([]string{pyBytes("a'\\\x00é\n"), pyString("x"), pyInts([]int{1, 2})})
	if want := `[b'a\x27\x5c\x00\xc3\xa9\x0a', b'x'.decode(), [1, 2]]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if slices.Contains([]byte(got), '\n') {
		t.Error("a line ends in it")
	}
}
