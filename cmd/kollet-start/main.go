// Command kollet-start is the entrypoint of every container that kollet creates.
// It applies the container's configuration once, warms up, reports that it is
// ready, waits at its gate, and then replaces itself with the service. A service
// that is preloaded replaces it earlier, and waits itself: see preload.go. Package
// gate documents the arguments, files and exit codes.
//
// It is bind-mounted into images that may contain nothing but one static binary,
// so it needs no file of theirs. It is kept small: it does not import encoding/json or
// os/user.
//
// The configuration is that of Kolla's images: config.json or config.yaml says which directories and
// files to create, what to copy, and whose it is. docs/kolla.md describes the contract
// and where kollet-start differs on purpose.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/gate"
)

const root = "/" // tests use others

const (
	warmLimit = 30 * time.Second       // for the whole warm-up
	tick      = 100 * time.Millisecond // between two checks of the gate if no wake-up arrives
)

func main() {
	err := run(os.Args[1:], os.Environ())
	if err == nil {
		return
	}
	report(err)
	os.Exit(exitCode(err))
}

// run returns only when the service could not be started, or when this is the
// reporter of a service that is preloaded.
func run(args, env []string) error {
	exitOnSignal()
	if len(args) == 1 && args[0] == flagReport {
		return exitWith(gate.ExitGate, reportReady(gate.Dir, 0))
	}
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
			note("warm-up %s: %v; continuing", strings.Join(opts.warm, " "), err)
		}
		if opts.preload {
			err := preload(command{program, opts.program, env}, user, opts.modules)
			note("preload: %v; starting without it", err)
		}
		if err := declareReady(gate.Dir); err != nil {
			return exit(gate.ExitGate, err)
		}
	}
	// What takes time is done. The service may be away from here on.
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
	preload bool
	modules []string // to import before the gate, with those of the script
	program []string // never empty
}

func parseArgs(args []string) (options, error) {
	var o options
	for i, arg := range args {
		if word, ok := strings.CutPrefix(arg, gate.FlagUser); ok {
			o.user = word
		} else if word, ok := strings.CutPrefix(arg, gate.FlagWarmup); ok {
			o.warm = append(o.warm, word)
		} else if arg == gate.FlagPreload {
			o.preload = true
		} else if word, ok := strings.CutPrefix(arg, gate.FlagModule); ok {
			o.modules = append(o.modules, word)
		} else if arg != "--" {
			return o, fmt.Errorf("unknown argument %q: expected %sUSER, %sWORD, then -- and the program", arg, gate.FlagUser, gate.FlagWarmup)
		} else if o.program = args[i+1:]; len(o.program) > 0 && o.program[0] != "" {
			return o, nil
		} else {
			break
		}
	}
	return o, errors.New("no program: give it after --")
}

// environment is the service's environment. Engines set HOME to that of the
// container's user, which is root because kollet-start needs root. A service that
// runs as another user gets that user's HOME, unless the image or the operator
// set one.
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

func exitWith(code int, err error) error {
	if err == nil {
		return nil
	}
	return exit(code, err)
}

func exitCode(err error) int {
	if e, ok := errors.AsType[exitError](err); ok {
		return e.code
	}
	return 1
}

// report reports why kollet-start fails, in the container's log and to kollet.
func report(err error) {
	line := strings.Join(strings.Fields(err.Error()), " ")
	note("%s", line)
	if err := declare(gate.Dir, gate.FileFailed, line+"\n"); err != nil {
		note("report to kollet: %v", err)
	}
}

func note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "kollet-start: "+format+"\n", args...)
}
