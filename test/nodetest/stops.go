package nodetest

import (
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/unix"
)

// Stepwise runs a command that stops after each record of the journal, until a function
// has decided whether it is killed or continues.
func (n *Node) Stepwise(args []string, after func(kollet int) (kill bool)) Outcome {
	n.T.Helper()
	faulty := *n
	faulty.Program = Program(n.T, "kollet-faults")
	faulty.Env = append(slices.Clone(faulty.Env), "KOLLET_STOP_AT_RECORDS=1")
	return n.Stops(faulty.Command(args...), after)
}

// Stops runs a command that stops itself, until a function has decided each time whether it
// is killed or continues.
func (n *Node) Stops(cmd *exec.Cmd, after func(pid int) (kill bool)) Outcome {
	n.T.Helper()
	output := n.Path("stderr")
	stderr, err := os.Create(output)
	Check(n.T, err)
	defer stderr.Close()
	cmd.Stderr = stderr
	Check(n.T, cmd.Start())
	defer func() { _ = cmd.Process.Release() }() // it has been waited for
	for {
		var status unix.WaitStatus
		if _, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil); err == unix.EINTR {
			continue
		} else if err != nil {
			n.T.Fatalf("wait for kollet: %v", err)
		}
		if !status.Stopped() {
			text, err := os.ReadFile(output)
			Check(n.T, err)
			return Outcome{Code: status.ExitStatus(), Stderr: string(text)} // -1: killed
		}
		next := unix.SIGCONT
		if after(cmd.Process.Pid) {
			next = unix.SIGKILL
		}
		_ = unix.Kill(cmd.Process.Pid, next)
	}
}
