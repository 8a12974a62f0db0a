// Package bench measures what kollet promises about time and memory: how long a
// service is away in an upgrade, next to the other ways of replacing it; how
// long an upgrade with nothing to do takes; how much memory one needs. `make
// bench` runs it and leaves the figures in build/bench; docs/performance.md
// tells how to read them.
//
// Only what measures is a benchmark here. Nothing fails because a machine is
// slow.
package bench
