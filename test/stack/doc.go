// Package stack tests the whole way of a compute node: Heat creates a stack of nodes from
// the template of playbooks/heat and the node image in Glance, Nova boots them, cloud-init
// runs kollet, and the nodes register as hypervisors of the same cloud. Ansible then
// upgrades them in waves.
//
// The machines of the stack are servers on a compute node that kollet runs in the test's
// own machine, all of them emulated by QEMU.
package stack
