package upgrade

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/containers"
)

// output runs a command in a container, and returns what it printed.
func (t *transaction) output(ctx context.Context, id, user string, command []string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, problems bytes.Buffer
	status, err := t.node.Engine.Exec(ctx, id, containers.Exec{Argv: command, User: user, Short: true, Stdout: &out, Stderr: &problems})
	if err != nil {
		return "", err
	}
	if status != 0 {
		return "", fmt.Errorf("exit status %d: %s", status, printable.Line(problems.String()))
	}
	return out.String(), nil
}
