package main

import (
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"
	"testing"
)

// fatalVar has the test's program end as a defect of kollet would end it.
const fatalVar = "KOLLET_TEST_FATAL"

// overflow has no end for a number below 0.
func overflow(n int) int {
	if n == 0 {
		return 0
	}
	return overflow(n-1) + 1
}

// An end that the runtime brings about is not taken for an exit status of kollet.
func TestFatalErrorEndsBySIGABRT(t *testing.T) {
	switch os.Getenv(fatalVar) {
	case "panic":
		abortOnFatal()
		go panic("in another goroutine")
		select {}
	case "overflow":
		abortOnFatal()
		debug.SetMaxStack(1 << 20)
		t.Log(overflow(-1))
	}
	for _, fatal := range []string{"panic", "overflow"} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), fatalVar+"="+fatal)
		out, _ := cmd.CombinedOutput() // the status says it
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() || status.Signal() != syscall.SIGABRT || status.CoreDump() {
			t.Errorf("%s: %v\n%.2000s", fatal, cmd.ProcessState, out)
		}
	}
}
