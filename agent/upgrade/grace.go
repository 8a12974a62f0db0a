package upgrade

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/openstack"
	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/configs/ini"
	"github.com/kollet/kollet/containers"
)

// graceMargin is added to the time that Nova takes for its own graceful shutdown:
// it ends by itself before kollet kills it.
const graceMargin = 15 * time.Second

// versionTimeout is how long a service's version command may take. It imports
// Python modules on a busy node.
const versionTimeout = 30 * time.Second

// fitGrace gives each old task that is about to be stopped the time that its own
// version of Nova takes to shut down gracefully. What cannot be found out leaves
// the stop_grace_period as it is.
func (t *transaction) fitGrace(ctx context.Context) {
	for _, g := range t.groups() {
		for _, m := range g {
			command := m.old.Version
			if m.new.Name != "" {
				command = m.new.Version // unset if the node file sets stop_grace_period
			}
			if m.old.Name == "" || len(command) == 0 {
				continue
			}
			shutdown, err := t.gracefulShutdown(ctx, m, command)
			if err != nil {
				t.node.Note(m.name, "has %v to stop: its own time is not known: %v", m.old.StopGracePeriod, err)
				continue
			}
			t.grace[m.name] = max(shutdown+graceMargin, m.old.StopGracePeriod)
		}
	}
}

// gracefulShutdown is what the configuration of the old task says, or else the
// default of its version.
func (t *transaction) gracefulShutdown(ctx context.Context, m member, command []string) (time.Duration, error) {
	if seconds, set := t.shutdownTimeout(m.old); set {
		return seconds, nil
	}
	running, err := t.running(ctx, group{m})
	if err != nil {
		return 0, err
	}
	if len(running[m.name]) == 0 {
		return 0, fmt.Errorf("it does not run")
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	var out, problems bytes.Buffer
	status, err := t.node.Engine.Exec(ctx, running[m.name][0], containers.Exec{Argv: command, User: m.old.User, Short: true, Stdout: &out, Stderr: &problems})
	if err != nil {
		return 0, err
	}
	if status != 0 {
		return 0, fmt.Errorf("%q: exit status %d", strings.Join(command, " "), status)
	}
	answer := out.String()
	if strings.TrimSpace(answer) == "" { // argparse printed versions there once
		answer = problems.String()
	}
	return openstack.GracefulShutdown(lastLine(answer))
}

// lastLine skips warnings that a program prints before its version.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return printable.Line(lines[len(lines)-1])
}

// forever stands for a graceful shutdown without an end, which Nova calls 0.
const forever = time.Hour

// shutdownTimeout finds graceful_shutdown_timeout in the files that were rendered
// for a service.
func (t *transaction) shutdownTimeout(s generation.Service) (time.Duration, bool) {
	for _, f := range s.Files {
		data, err := os.ReadFile(filepath.Join(t.node.Store().Config(s.Origin, s.Name), f.Name))
		if err != nil {
			continue
		}
		file, err := ini.Parse(data)
		if err != nil {
			continue // not every file is one
		}
		values := file.Get("DEFAULT", "graceful_shutdown_timeout")
		if len(values) == 0 {
			continue
		}
		seconds, err := strconv.Atoi(values[len(values)-1])
		switch {
		case err != nil || seconds < 0:
			continue
		case seconds == 0:
			return forever, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	return 0, false
}
