// Package vm shows what only a whole machine can: a first boot by cloud-init,
// systemd as the machine's init, cgroup v2, and power losses. Its tests boot the
// node image that `make node-image` builds in QEMU, and emulate every instruction:
// a boot takes a minute or two. KOLLET_VM_ACCEL=kvm makes that seconds on machines
// that have KVM. What a failed test leaves is in build/vm.
package vm
