// Package faults lets things go wrong while kollet upgrades, rolls back and recovers a node
// of two small services, or of libvirt, one after another:
//
//   - TestEngine puts a proxy before the engine's socket. A call fails, waits, is cut off
//     before or after the engine did what it asks, or is answered late.
//   - TestSilentEngine has a proxy that does not pass a call on and never answers it.
//   - TestSystemCalls lets the system calls with which kollet uses its state directory fail
//     with ENOSPC, EIO or EROFS. seccomp stops each of them until the test has decided
//     whether the kernel carries it out, seccomp_unotify(2).
//   - TestKills kills kollet, also by a limit of its memory, the engine or the shims of
//     containers after a record of the journal. bin/kollet-faults stops itself there until
//     the test lets it continue.
//   - TestKillsAtAnyMoment kills kollet, its recovery and the recovery of that at random moments.
//   - TestLibvirt kills kollet, and sometimes a shim, while it replaces libvirt under a guest of
//     QEMU, with the images that make builds.
//   - TestAdoption kills kollet while it takes over a node of kolla-ansible under a guest of QEMU,
//     and while it gives the node back.
//   - TestClock sets kollet's clock between and during commands.
//   - TestMemory limits the memory of kollet, which is killed if it needs more.
//   - TestRegistry makes the registry sick before a pull or an upgrade.
//   - TestPower logs what is written to the node's disk, and when the disk is flushed. Then it
//     starts the node from the disk as a power loss left it: at a flush, or with a part of what
//     was written after one.
//   - TestBirths has a service start guests at any moment of a command, also while it is
//     stopped, and kills kollet in between. The service is its container's first process, or
//     below an init or a shell.
//
// A call fails once, or from it on until the command ends. Then the recovery is attacked in
// the same way. After each command the node is looked at from outside: the engine's
// containers, their processes and what they answer, the journal, the guest and the exit
// status. At last the fault is gone, and `kollet recover` and `kollet upgrade` have to bring
// the node to healthy.
//
// make chaos injects every fault at every call, and can continue where an earlier run ended
// (package progress); make test a part of them, chosen by a seed.
package faults
