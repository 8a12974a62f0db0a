// Package architecture states which package may import which, and has no code
// but the test that keeps it so. .golangci.yml draws the same picture for
// editors; this one needs nothing but Go.
package architecture
