// Command guest shows in `make up` that a guest is never interrupted:
//
//	guest xml NAME UUID DIR                   prints a libvirt domain that counts on its console
//	guest watch CONSOLE PID COMMAND [ARG...]  runs a command; shows its output and the guest's count, with times
//
// watch exits with the command's exit status, or with 1 if PID is a different process
// afterwards or the count has a gap.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/kollet/kollet/test/machine"
)

const usage = `usage: guest xml NAME UUID DIR
       guest watch CONSOLE PID COMMAND [ARG...]`

func main() {
	args := os.Args[1:]
	switch {
	case len(args) == 4 && args[0] == "xml":
		fmt.Print(machine.GuestXML(args[1], args[2], args[3]))
	case len(args) >= 4 && args[0] == "watch":
		pid, err := strconv.Atoi(args[2])
		if err != nil {
			fail(2, "process id: %v", err)
		}
		status, err := watch(args[1], pid, args[3:])
		if err != nil {
			fail(1, "%v", err)
		}
		os.Exit(status)
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
}

func fail(status int, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "guest: "+format+"\n", args...)
	os.Exit(status)
}
