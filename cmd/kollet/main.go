// Kollet is the node agent of containerised OpenStack compute nodes. This package
// is its command line. Each command has its own file with its flags, one call of
// the agent, and one view of the result.
package main

import (
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/kollet/kollet/cmd/kollet/view"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/containerd"
)

// softLimit is the heap size in bytes above which the garbage collector runs more
// often. Only a pull on containerd, where kollet itself fetches the layers, comes
// near it. Below it collections are rare: a short command ends before the first.
const (
	softLimit     = 18 << 20
	growthPercent = 400
)

func main() {
	abortOnFatal()
	debug.SetMemoryLimit(softLimit)
	debug.SetGCPercent(growthPercent)
	if len(os.Args) > 1 && os.Args[1] == containerd.LogCommand { // started by containerd as the log writer of a container
		if err := containerd.WriteLog(os.Args); err != nil {
			_, _ = os.Stderr.WriteString("kollet: " + err.Error() + "\n")
			os.Exit(exitFailed)
		}
		os.Exit(exitDone)
	}
	os.Exit(run(os.Args[1:], &app{
		in:     os.Stdin,
		out:    os.Stdout,
		err:    os.Stderr,
		getenv: os.Getenv,
		now:    now,
		open:   openEngine,
	}))
}

// app is one run of kollet.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	now      func() time.Time
	open     func(engine, address, root string) (containers.Engine, error)

	flags   globalFlags
	started bool // the command line was valid and the command was started
	printer view.Printer
}

// run executes one command line and returns the exit status.
func run(args []string, a *app) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteC()
	if err != nil && !a.started {
		a.flags.output = outputFormat(args) // cobra may have failed before it parsed the flag
		err = usageError{err, describedBy(cmd)}
	}
	return a.finish(err)
}
