package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/cmd/kollet/view"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/containerd"
	"github.com/kollet/kollet/containers/deadline"
	"github.com/kollet/kollet/containers/docker"
	"github.com/kollet/kollet/containers/podman"
)

// globalFlags are the flags that every command takes.
type globalFlags struct {
	output               view.Format
	root, nodeFile, host string
	engine               string
	engineTimeout        time.Duration
	quiet                bool
}

func (g *globalFlags) add(f *pflag.FlagSet) {
	f.VarP(&g.output, "output", "o", "output format")
	f.StringVar(&g.root, "root", "", "`DIR` to use as the root directory for state and configuration (default /)")
	f.StringVar(&g.nodeFile, "node-file", node.DefaultNodeFile, "`PATH` of the node file below --root")
	f.StringVar(&g.engine, "engine", "", "`ADDRESS` of the engine's socket (default: $DOCKER_HOST, $CONTAINERD_ADDRESS or $CONTAINER_HOST, else the engine's default)")
	f.DurationVar(&g.engineTimeout, "engine-timeout", deadline.Default, "`DURATION` within which the engine must answer a request")
	f.BoolVar(&g.quiet, "quiet", false, "do not show progress")
	f.StringVar(&g.host, "host", "", "`NAME` of this node (default: the host name)")
}

// outputFormat returns the output format of an invalid command line.
func outputFormat(args []string) view.Format {
	var g globalFlags
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Usage = func() {}
	f.ParseErrorsAllowlist.UnknownFlags = true
	g.add(f)
	_ = f.Parse(args) // best effort
	return g.output
}

// print returns the printer. It is created on first use, when the flags are known.
func (a *app) print() view.Printer {
	if a.printer == nil {
		a.printer = view.New(a.screen())
	}
	return a.printer
}

func (a *app) screen() view.Screen {
	return view.Screen{Out: a.out, Err: a.err, Format: a.flags.output, Quiet: a.flags.quiet, Getenv: a.getenv, Now: a.now}
}

// action is the work of a command: one call of the agent. It may return a result
// together with an error.
type action func(ctx context.Context, n *agent.Agent, args []string) (view.View, error)

// offline runs a command that needs no engine.
func (a *app) offline(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		n, err := a.offlineAgent(cmd)
		if err != nil {
			return err
		}
		return a.show(withoutPanic(n, func() (view.View, error) { return do(cmd.Context(), n, args) }))
	}
}

// readOnly runs a command that uses the engine and changes nothing. The first
// signal cancels it, the second ends kollet immediately.
func (a *app) readOnly(do action) func(*cobra.Command, []string) error {
	return a.reading(do, a.withEngine)
}

// diagnosing is readOnly for a command that also works on a node whose current generation
// cannot be read: it uses the engine that the node file names.
func (a *app) diagnosing(do action) func(*cobra.Command, []string) error {
	return a.reading(do, a.withAnyEngine)
}

func (a *app) reading(do action, with func(*cobra.Command, func(*agent.Agent) error) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := cancelOnSignal(cmd.Context(), func() {})
		defer stop()
		return with(cmd, func(n *agent.Agent) error {
			return a.show(withoutPanic(n, func() (view.View, error) { return do(ctx, n, args) }))
		})
	}
}

// mutating runs a command that changes the node. The first signal cancels it,
// and its changes are undone. A lost terminal or a closed output pipe does
// not stop it.
func (a *app) mutating(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.withEngine(cmd, func(n *agent.Agent) error {
			ctx, stop := cancelOnFirstSignal(cmd.Context(), a.print().Say)
			defer stop()
			result, err := withoutPanic(n, func() (view.View, error) { return do(ctx, n, args) })
			if err != nil {
				return a.show(result, err)
			}
			_ = a.print().Show(result) // the node has changed, whether this can be shown or not
			return nil
		})
	}
}

// withoutPanic turns a panic into an error that says where the node is. Without it, Go
// ends the program with status 2, as if nothing had been changed.
func withoutPanic(n *agent.Agent, do func() (view.View, error)) (result view.View, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = node.NeedsOperator{Err: fmt.Errorf("this is a defect of kollet: %v\n%s\n%s", p, debug.Stack(), n.Where())}
		}
	}()
	return do()
}

// show shows a result. With an error other than statusError it leaves that to
// finish, which shows both.
func (a *app) show(result view.View, err error) error {
	if _, isStatus := err.(statusError); err != nil && !isStatus {
		return resultError{err, result}
	}
	if result != nil {
		if werr := a.print().Show(result); werr != nil {
			return werr
		}
	}
	return err
}

// offlineAgent makes the agent of a command that needs no engine.
func (a *app) offlineAgent(cmd *cobra.Command) (*agent.Agent, error) {
	root, err := a.rootDir()
	if err != nil {
		return nil, err
	}
	return a.agent(cmd, root, nil)
}

// withEngine makes the agent with the engine that the node uses. Nothing is
// asked of the engine yet.
func (a *app) withEngine(cmd *cobra.Command, do func(*agent.Agent) error) error {
	root, err := a.rootDir()
	if err != nil {
		return err
	}
	name, err := node.EngineName(root, a.flags.nodeFile)
	if err != nil {
		return err
	}
	return a.withEngineOf(cmd, root, name, do)
}

// withAnyEngine is withEngine, but does not need the current generation to be readable.
func (a *app) withAnyEngine(cmd *cobra.Command, do func(*agent.Agent) error) error {
	root, err := a.rootDir()
	if err != nil {
		return err
	}
	name, _ := node.EngineName(root, a.flags.nodeFile) // the command reports what is wrong
	return a.withEngineOf(cmd, root, name, do)
}

func (a *app) withEngineOf(cmd *cobra.Command, root, name string, do func(*agent.Agent) error) error {
	if a.flags.engineTimeout <= 0 {
		return node.BadInput{Err: fmt.Errorf("--engine-timeout %v: expected a positive duration, such as %v", a.flags.engineTimeout, deadline.Default)}
	}
	engine, err := a.open(name, a.flags.engine, root)
	if err != nil {
		return err
	}
	defer engine.Close()
	engine = deadline.Limit(engine, a.flags.engineTimeout)
	n, err := a.agent(cmd, root, engine)
	if err != nil {
		return err
	}
	return do(n)
}

func (a *app) agent(cmd *cobra.Command, root string, engine containers.Engine) (*agent.Agent, error) {
	name := a.flags.host
	if name == "" {
		var err error
		if name, err = node.HostName(); err != nil {
			return nil, err
		}
	}
	machine := host.Real()
	machine.Now = a.now
	return agent.New(node.Node{
		Root:     root,
		NodeFile: a.flags.nodeFile,
		Name:     name,
		Host:     machine,
		Version:  thisVersion().Version,
		Command:  cmd.Name(),
		Engine:   engine,
		Report:   a.print().Progress,
	}), nil
}

// rootDir is --root in full: containers are told of paths below it. It has to exist: kollet
// would make a misspelled one, and find nothing there to recover.
func (a *app) rootDir() (string, error) {
	if a.flags.root == "" {
		return "", nil
	}
	root, err := filepath.Abs(a.flags.root)
	if err != nil {
		return "", err
	}
	if dir, err := os.Stat(root); err != nil {
		return "", node.BadInput{Err: fmt.Errorf("--root %s: %w; correct the path, or create the directory", a.flags.root, node.WithoutPath(err))}
	} else if !dir.IsDir() {
		return "", node.BadInput{Err: fmt.Errorf("--root %s: expected a directory", a.flags.root)}
	}
	return root, nil
}

// engineVariables are the environment variables with an engine's address, which its
// client reads if --engine is not given.
var engineVariables = map[string]string{"docker": "DOCKER_HOST", "containerd": "CONTAINERD_ADDRESS", "podman": "CONTAINER_HOST"}

// openEngine prepares to talk to an engine; root is that of --root. A name that
// is none is left to the node file's check, which knows its line.
func openEngine(name, address, root string) (containers.Engine, error) {
	var engine containers.Engine
	var err error
	switch name {
	case "containerd":
		engine, err = containerd.New(containerd.Config{Address: address, Root: filepath.Join("/", root, node.StateDir, "containerd")})
	case "podman":
		engine, err = podman.New(address)
	default:
		engine, err = docker.New(address)
	}
	if err != nil {
		given := "--engine"
		if address == "" {
			given = cmp.Or(engineVariables[name], "DOCKER_HOST")
		}
		return nil, node.BadInput{Err: fmt.Errorf("%s: %w", given, err)}
	}
	return engine, nil
}
