package node

import (
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

// mostTail is how much of it is kept, in bytes: a line may have no end.
const mostTail = 64 << 10

// lastBytes keeps the end of what is written to it.
type lastBytes []byte

func (l *lastBytes) Write(p []byte) (int, error) {
	*l = append(*l, p...)
	*l = (*l)[max(0, len(*l)-mostTail):]
	return len(p), nil
}

func (n *Node) tail(ctx context.Context, id string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var out lastBytes
	if err := n.Engine.Logs(ctx, id, containers.LogOptions{Tail: tailLines}, &out); err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	for i := range lines {
		lines[i] = "  | " + strings.TrimRight(lines[i], "\r")
	}
	if len(lines) == 1 && lines[0] == "  | " {
		return ""
	}
	return strings.Join(lines, "\n")
}
