package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/firstboot"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/cmd/kollet/view"
)

// defaultWait is how long a first boot waits for the engine, the registry, archives
// and what services require: engines start in seconds, networks in a minute or two.
const defaultWait = 5 * time.Minute

// bootstrapFlags are the flags of bootstrap.
type bootstrapFlags struct {
	targetFlags
	archives []string
	wait     time.Duration
	resume   bool
}

func (a *app) bootstrap() *cobra.Command {
	var to bootstrapFlags
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Bring the node to a verified first generation",
		Long: `Bootstrap brings up a node at its first boot. It waits for the engine, loads the
images from archives or pulls them from their registry, renders the configuration,
starts every service of the node file, waits until all are healthy, and records
the result as generation 1. If that fails, it removes what it started; pulled
images and named volumes are kept.

It logs to standard output and to /var/log/kollet/provision.log, and writes the
result to /var/lib/kollet/provision-finished. On hosts with systemd it installs
kollet-recover.service, which runs ` + "`kollet recover`" + ` at each boot and resumes an
interrupted bootstrap.

It is safe to run again: on a node that has a generation it does the same as
` + "`kollet upgrade`" + `, which changes nothing if the node file has not changed.` + gapHelp +
			exitHelp(map[int]string{exitFailed: "failed; the services that it started were removed"}, exitDone, exitFailed, exitInput, exitOperator, exitLocked, exitDeferred),
		Example: `  kollet bootstrap
  kollet bootstrap --pull never --archive '/media/images/*.tar.zst'`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runBootstrap(cmd, &to) },
	}
	to.add(cmd)
	return cmd
}

func (p *bootstrapFlags) add(cmd *cobra.Command) {
	p.targetFlags.add(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&p.archives, "archive", nil, "image archive: absolute path of a `FILE` below --root, or a pattern such as /media/images/*.tar; can be repeated")
	f.DurationVar(&p.wait, "wait", defaultWait, "`DURATION` to wait for the engine, the registry, archives and what services require, such as 90s; 0: do not wait")
	f.BoolVar(&p.resume, "resume", false, "resume an interrupted bootstrap with its original flags; do nothing if there is none")
}

// check refuses flags that contradict each other.
func (p *bootstrapFlags) check(cmd *cobra.Command) error {
	for _, other := range []string{"image", "tag", "pull", "archive", "wait"} {
		if p.resume && cmd.Flags().Changed(other) {
			return usageError{fmt.Errorf("--resume and --%s: --resume uses the flags of the interrupted bootstrap; remove one of them", other), "bootstrap"}
		}
	}
	for _, pattern := range p.archives {
		if err := nodefile.CheckArchive(pattern); err != nil {
			return usageError{fmt.Errorf("--archive: %w", err), "bootstrap"}
		}
	}
	if p.wait < 0 {
		return usageError{fmt.Errorf("--wait %v: expected a duration such as 90s, or 0", p.wait), "bootstrap"}
	}
	return nil
}

// runBootstrap runs a bootstrap with its log.
func (a *app) runBootstrap(cmd *cobra.Command, to *bootstrapFlags) error {
	if err := to.check(cmd); err != nil {
		return err
	}
	root, err := a.rootDir()
	if err != nil {
		return err
	}
	if to.resume {
		begun, err := firstboot.Interrupted(root)
		if err != nil {
			return err
		}
		if begun == nil {
			return a.show(view.Resumed{}, nil)
		}
	}
	log, err := firstboot.OpenLog(root)
	if err != nil {
		a.print().Say(err.Error() + "; continuing without a log") // the node matters more
	} else {
		screen := a.screen()
		screen.Log = log // stays open until kollet exits: an error is its last line
		a.printer = view.New(screen)
	}
	begun := a.now()
	return a.mutating(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
		a.print().Say(fmt.Sprintf("starting bootstrap of %s with kollet %s", n.Host(), thisVersion().Version))
		result, err := to.run(ctx, n, a)
		a.print().Say(outcomeLine(result, err))
		return a.upgradeView(result, begun), err
	})(cmd, nil)
}

func (p *bootstrapFlags) run(ctx context.Context, n *agent.Agent, a *app) (upgrade.Result, error) {
	unit, err := a.unit(n)
	if err != nil {
		return upgrade.Result{}, err
	}
	if p.resume {
		result, _, err := n.Resume(ctx, unit)
		return result, err
	}
	options := p.options()
	options.Archives, options.Wait = p.archives, p.wait
	return n.Bootstrap(ctx, agent.BootstrapOptions{Options: options, Unit: unit})
}

// outcomeLine is the last line of the log, except for an error.
func outcomeLine(result upgrade.Result, err error) string {
	if err == nil {
		return fmt.Sprintf("bootstrap finished: %s; the node is on generation %d", result.Outcome, result.To)
	}
	return fmt.Sprintf("bootstrap finished: failed, exit status %d", exitStatus(err))
}

// unit returns the systemd unit that runs kollet at the next boot.
func (a *app) unit(n *agent.Agent) (*firstboot.Unit, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the kollet program: %w", err)
	}
	name, err := node.EngineName(n.Root(), n.NodeFile())
	if err != nil {
		return nil, err
	}
	u := &firstboot.Unit{Program: program}
	for _, flag := range []struct{ name, value string }{
		{"root", n.Root()}, {"engine", cmp.Or(a.flags.engine, a.getenv(engineVariables[name]))}, {"host", a.flags.host},
	} {
		if flag.value != "" {
			u.Flags = append(u.Flags, "--"+flag.name, flag.value)
		}
	}
	if n.NodeFile() != node.DefaultNodeFile {
		u.Flags = append(u.Flags, "--node-file", n.NodeFile())
	}
	return u, nil
}
