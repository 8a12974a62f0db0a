// Package vm contains the tests that need a whole machine: a first boot by cloud-init,
// systemd as init, cgroup v2, and power losses. The tests boot the node image that
// `make node-image` builds in QEMU. By default QEMU emulates every instruction, and a
// boot takes a minute or two; on machines with KVM, KOLLET_VM_ACCEL=kvm reduces that
// to seconds. Disks and logs of failed tests are in build/vm.
package vm
