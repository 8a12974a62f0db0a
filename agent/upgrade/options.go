package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

// validatorTimeout bounds how long oslo-config-validator may take for one file. It imports
// all that declares options, which takes two seconds.
const validatorTimeout = 30 * time.Second

// validator runs oslo-config-validator, if the image has it.
var validator = []string{"sh", "-c", `command -v "$1" >/dev/null || exit 0; exec "$@"`, "sh", "oslo-config-validator"}

// unknownOption is what it says of an option that nothing in the image declares.
var unknownOption = regexp.MustCompile(`^ERROR:root:(.+)/(\S+) is not part of the sample config$`)

// warnOfOptions has the staged containers check whether their programs know the options in
// their configuration, and warns of the others. It refuses nothing: the options of a plugin may
// be declared where the validator does not look, and a service ignores what it does not know.
func (t *transaction) warnOfOptions(ctx context.Context) error {
	said := make([]error, len(t.target.OsloFiles))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, min(parallel, runtime.NumCPU()/2))) // each takes a processor, and guests need the others
	for i, f := range t.target.OsloFiles {
		if s, ok := t.to.Service(f.Service); ok && s.Origin == t.to.Number && !t.checkedBefore(s, f.Path) {
			g.Go(func() error {
				said[i] = t.optionsIn(gctx, s, f)
				return nil
			})
		}
	}
	_ = g.Wait() // what it says are warnings
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, f := range t.target.OsloFiles {
		if said[i] == nil {
			continue
		}
		if err := t.warn(f.Service, "%s: %w", path.Base(f.Path), said[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkedBefore reports whether a service has had the same file with the same image.
func (t *transaction) checkedBefore(s generation.Service, dest string) bool {
	old, _ := t.from.Service(s.Name)
	sum := func(s generation.Service) string {
		for _, f := range s.Files {
			if f.Dest == dest {
				return f.SHA256
			}
		}
		return ""
	}
	return old.Image.ID == s.Image.ID && sum(old) == sum(s)
}

// optionsIn says what is wrong with the options in a file of a staged container.
func (t *transaction) optionsIn(ctx context.Context, s generation.Service, f target.OsloFile) error {
	ctx, cancel := context.WithTimeout(ctx, validatorTimeout)
	defer cancel()
	argv := append(append([]string{}, validator...), "--input-file", f.Path)
	for _, namespace := range f.Namespaces {
		argv = append(argv, "--namespace", namespace)
	}
	c, err := t.node.Container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	status, err := t.node.Engine.Exec(ctx, c.ID, containers.Exec{Argv: argv, User: s.User, Short: true, Stdout: &out, Stderr: &out})
	if err != nil {
		return fmt.Errorf("its options were not checked: %w", err)
	}
	var unknown []string
	last := ""
	for line := range strings.Lines(out.String()) {
		last = printable.Line(line)
		if found := unknownOption.FindStringSubmatch(strings.TrimSuffix(line, "\n")); found != nil {
			unknown = append(unknown, printable.Line(fmt.Sprintf("[%s] %s%s", found[1], found[2], f.Origin(found[1], found[2]))))
		}
	}
	switch {
	case len(unknown) > 0:
		return errors.New("unknown to the new image: " + named(unknown) + "; correct the name, unless it is an option of a plugin")
	case status != 0:
		return fmt.Errorf("its options were not checked: oslo-config-validator: exit status %d: %s", status, last)
	}
	return nil
}
