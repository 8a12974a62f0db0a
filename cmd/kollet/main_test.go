package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/containers"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kollet": main,
		// The same with an engine of the tests' own; see engine_test.go.
		"kollet-with-engine": func() {
			os.Exit(run(os.Args[1:], &app{
				in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, now: time.Now,
				open: func(name, address, _ string) (containers.Engine, error) {
					return engine{name, address == "silent"}, nil
				},
			}))
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			// No script may reach an engine of this machine.
			e.Setenv("DOCKER_HOST", "unix://"+filepath.Join(e.WorkDir, "no-engine.sock"))
			e.Setenv("CONTAINERD_ADDRESS", filepath.Join(e.WorkDir, "no-containerd.sock"))
			e.Setenv("CONTAINER_HOST", "unix://"+filepath.Join(e.WorkDir, "no-podman.sock"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status,
			"isjson": func(ts *testscript.TestScript, neg bool, args []string) {
				d := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
				oneDocument(ts, d.Decode)
			},
			"isyaml": func(ts *testscript.TestScript, neg bool, args []string) {
				d := yaml.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
				oneDocument(ts, d.Decode)
			},
		},
	})
}

// status runs a command and checks its exit status: status N PROGRAM ARG….
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N PROGRAM ARG…")
	}
	// The shell's own words for the status are all that testscript lets out.
	quoted := make([]string, len(args)-1)
	for i, a := range args[1:] {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	err := ts.Exec("sh", "-c", strings.Join(quoted, " ")+`; s=$?; test $s = `+args[0]+` || { echo "exit status $s, expected `+args[0]+`" >&2; exit 1; }`)
	if err != nil {
		ts.Fatalf("%v", err)
	}
}

// oneDocument fails unless there is exactly one document to decode.
func oneDocument(ts *testscript.TestScript, decode func(any) error) {
	var first, second any
	if err := decode(&first); err != nil {
		ts.Fatalf("not one document: %v", err)
	}
	if err := decode(&second); err != io.EOF {
		ts.Fatalf("something follows the document: %v %v", second, err)
	}
}
