// Package operations tests that an upgrade loses no operation: servers are built, stopped
// and copied on a node in a cloud while the node is upgraded, and kollet is killed while
// the node's compute service is disabled.
package operations
