// Package machine gives tests an isolated machine with real daemons: Docker,
// containerd, an image registry, RabbitMQ, OVN, and guests that count on their console.
//
// A package whose tests need it calls Main in its TestMain:
//
//	func TestMain(m *testing.M) { machine.Main(m) }
//
// The test binary then starts itself again, as root, inside new mount, pid, network,
// IPC and UTS namespaces. Its parent there is a small init, pid 1, which reaps
// processes. When the test ends, is interrupted or is killed, the kernel kills
// everything that it started. Inside the machine:
//
//   - The network is a loopback device, so fixed ports are free and nothing can be
//     downloaded. /sys shows this network.
//   - /run is empty. /etc, /var/lib and /var/log are writable, and changes are
//     discarded at the end, so tests can use kollet's real paths.
//   - /dev/kvm, if the machine has one, belongs to a group other than root, as on a
//     node.
//   - TMPDIR is a directory on disk that is removed at the end. Dir creates a
//     directory that is removed with its test, including mounts.
//   - The cgroup hierarchies are those of the host. Containers are below
//     CgroupParent, which is removed at the end, as are new cgroups of guests.
//
// Programs that are not tests call Enter instead and pass their own TB.
//
// An example:
//
//	engine := machine.Dockerd(t, machine.LiveRestore())
//	registry := machine.NewRegistry(t)
//	rabbit := machine.NewRabbit(t, "secret")
//	// push images to registry.Addr, run kollet with DOCKER_HOST=engine.Socket
//	for _, c := range rabbit.Connections(t) { … }
//
//	dir := "/var/lib/nova/instances/" + uuid
//	console := machine.PlaceGuest(t, dir)
//	// virsh define, with machine.GuestXML("guest", uuid, dir); virsh start
//	before := machine.AwaitTick(t, console, 5)
//	// upgrade
//	machine.AwaitTick(t, console, before+10)
//	ticks, err := machine.Ticks(console)
//	// check err and machine.Unbroken(ticks): the guest was never interrupted
//
//	engine.Kill() // a crash; engine.Start() uses the same data
//
// Daemons end with their test. If the test failed, the end of their logs is printed.
// Only Debian packages are needed; an error about a missing program says how to
// install it.
//
// If the capability bounding set is restricted, as in some containers, runc cannot
// start privileged containers. Dockerd then configures a runtime that requests fewer
// capabilities, see package bounded; Runtime returns its path for other uses.
package machine
