// Command guest is what `make up` needs to show a guest that is never
// interrupted:
//
//	guest xml NAME UUID DIR                   prints a libvirt domain that counts on its console
//	guest watch CONSOLE PID COMMAND [ARG...]  runs a command; shows what it says and what the guest counts, with the time of each
//
// watch ends with the command's exit status, or with 1 if the process PID is
// another one afterwards or the count skipped.
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
