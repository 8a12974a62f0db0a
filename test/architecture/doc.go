// Package architecture tests which packages import which. .golangci.yml has a
// coarser version of the same rules for editors; this test needs only Go.
package architecture
