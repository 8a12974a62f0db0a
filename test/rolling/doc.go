// Package rolling contains the tests of two compute nodes of one cloud, which are
// upgraded one after the other while servers are created, migrated and deleted.
package rolling
