// Package fleet drives kollet on several nodes with Ansible, as operators do:
// the collection of playbooks, OpenSSH, and nodes that each have an engine, a
// disk, an address and processes of their own. It holds nothing but tests.
package fleet
