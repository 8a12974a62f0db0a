package node

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/kollet/kollet/containers"
)

// LogTail returns the last log lines of a container as the end of an error's
// text; "" if there are none.
func (n *Node) LogTail(ctx context.Context, id string) string {
	text := n.tail(ctx, id)
	if text == "" {
		return ""
	}
	return "; last log lines:\n" + text
}

// tailLines is how much of a failed service's output an error shows.
const tailLines = 20

func (n *Node) tail(ctx context.Context, id string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var out bytes.Buffer
	if err := n.Engine.Logs(ctx, id, containers.LogOptions{Tail: tailLines}, &out); err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = "  | " + strings.TrimRight(lines[i], "\r")
	}
	if len(lines) == 1 && lines[0] == "  | " {
		return ""
	}
	return strings.Join(lines, "\n")
}
