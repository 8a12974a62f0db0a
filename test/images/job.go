package main

import (
	"fmt"
	"os"
	"slices"
)

// job implements machine.TB for a program.
type job struct {
	failed   bool
	cleanups []func()
}

// stop is the value with which Fatalf panics.
type stop struct{}

// run does the work, then calls the functions registered with Cleanup, the last one
// first. It returns the program's exit status.
func (j *job) run(work func()) (status int) {
	defer func() {
		if r := recover(); r != nil && r != (stop{}) {
			panic(r)
		}
		for _, cleanup := range slices.Backward(j.cleanups) {
			cleanup()
		}
		if j.failed {
			status = 1
		}
	}()
	work()
	return 0
}

func (j *job) Helper()          {}
func (j *job) Name() string     { return "images" }
func (j *job) Failed() bool     { return j.failed }
func (j *job) Cleanup(f func()) { j.cleanups = append(j.cleanups, f) }

func (j *job) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "images: "+format+"\n", args...)
}

func (j *job) Fatalf(format string, args ...any) {
	j.failed = true
	j.Logf(format, args...)
	panic(stop{})
}
