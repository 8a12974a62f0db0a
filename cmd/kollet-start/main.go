// Command kollet-start is the first program of every container that kollet
// makes. It applies the container's configuration once, warms up, reports that
// it is ready, waits at its gate, and then replaces itself with the service.
// Package gate has its arguments, files and exit codes.
//
// It is bind-mounted into images that may hold nothing but one static binary,
// so it needs no file of theirs, and it is kept small: hence no encoding/json,
// no os/user, no regexp.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/gate"
)

const root = "/" // tests of the parts use others

// These bound how long a container can stay staged for nothing.
const (
	warmLimit = 30 * time.Second       // for the whole warm-up
	tick      = 100 * time.Millisecond // between two looks at the gate when no wake-up arrives
)

func main() {
	err := run(os.Args[1:], os.Environ())
	report(err)
	os.Exit(exitCode(err))
}

// run returns only when the service could not be started.
func run(args, env []string) error {
	endOnSignal()
	opts, err := parseArgs(args)
	if err != nil {
		return exit(gate.ExitUsage, err)
	}
	if err := enterGate(gate.Dir); err != nil {
		return exit(gate.ExitGate, err)
	}
	names, err := readNames(root)
	if err != nil {
		return exit(gate.ExitUser, err)
	}
	user, err := names.account(opts.user)
	if err != nil {
		return exit(gate.ExitUser, err)
	}
	configured, err := configure(root, names)
	if err != nil {
		return exit(gate.ExitConfig, err)
	}
	env = environment(env, user, names, configured)
	program, err := findProgram(opts.program[0], user, env)
	if err != nil {
		return fmt.Errorf("entrypoint %w", err)
	}
	if !gate.IsOpen(gate.Dir) {
		if err := warmUp(opts.warm, user, env, warmLimit); err != nil {
			note("warm-up %s: %v; going on", strings.Join(opts.warm, " "), err)
		}
		if err := declareReady(gate.Dir); err != nil {
			return exit(gate.ExitGate, err)
		}
	}
	// All that takes time is done: from here on the service is down.
	return as(user, func(become func() error) error {
		waitOpen(gate.Dir, tick)
		if err := become(); err != nil {
			return exit(gate.ExitUser, err)
		}
		return execute(program, opts.program, env)
	})
}

// options are kollet-start's own arguments.
type options struct {
	user    string
	warm    []string
	program []string // never empty
}

func parseArgs(args []string) (options, error) {
	var o options
	for i, arg := range args {
		if word, ok := strings.CutPrefix(arg, gate.FlagUser); ok {
			o.user = word
		} else if word, ok := strings.CutPrefix(arg, gate.FlagWarm); ok {
			o.warm = append(o.warm, word)
		} else if arg != "--" {
			return o, fmt.Errorf("unknown argument %q: want %sUSER, %sWORD, then -- and the program", arg, gate.FlagUser, gate.FlagWarm)
		} else if o.program = args[i+1:]; len(o.program) > 0 && o.program[0] != "" {
			return o, nil
		} else {
			break
		}
	}
	return o, errors.New("no program to become: give it after --")
}

// environment is what the service gets. Engines set HOME to that of the
// container's user, which is root for kollet-start's sake: another user gets
// its own, unless the image or the operator chose one.
func environment(env []string, user account, names names, configured bool) []string {
	if home, _ := lookup(env, "HOME"); home == "" || home == "/" || home == names.home(0) {
		env = set(env, "HOME", user.home)
	}
	if configured {
		env = set(env, gate.Strategy, gate.StrategyOnce)
	}
	return env
}

func lookup(env []string, key string) (string, bool) {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, key+"="); ok {
			return value, true
		}
	}
	return "", false
}

func set(env []string, key, value string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, key+"=") {
			out = append(out, kv)
		}
	}
	return append(out, key+"="+value)
}

// exitError is an error that decides the exit code.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

func exit(code int, err error) error { return exitError{code, err} }

func exitCode(err error) int {
	if e, ok := errors.AsType[exitError](err); ok {
		return e.code
	}
	return 1
}

// report says why the container ends, in its log and to kollet.
func report(err error) {
	line := strings.Join(strings.Fields(err.Error()), " ")
	note("%s", line)
	if err := declare(gate.Dir, gate.FileFailed, line+"\n"); err != nil {
		note("tell kollet: %v", err)
	}
}

func note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "kollet-start: "+format+"\n", args...)
}
