// Package fleet contains the tests of fleets: Ansible upgrades several nodes over SSH
// with the collection of playbooks, as operators do. Each node has its own engine,
// disk, address and processes.
package fleet
