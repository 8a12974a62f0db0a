// Package machine gives tests real daemons on a machine of their own: Docker,
// containerd, an image registry, RabbitMQ, and guests that count.
//
// A package whose tests need one hands its TestMain over:
//
//	func TestMain(m *testing.M) { machine.Main(m) }
//
// The test binary then starts itself anew, as root, inside new mount, pid,
// network, IPC and UTS namespaces. A small init, pid 1 there, reaps; when the
// test ends, is interrupted or is killed, the kernel kills whatever it started.
// Inside,
//
//   - the network is a loopback device, so fixed ports are free and nothing can
//     be fetched; /sys shows this network,
//   - /run is empty, and /etc, /var/lib and /var/log may be written to: that is
//     thrown away. A scenario can therefore use kollet's real paths,
//   - /dev/kvm, where there is one, belongs to a group that is not root's, as on
//     a node,
//   - TMPDIR is a directory on disk that is removed at the end; see Dir for one
//     that is removed with the test, mounts and all,
//   - the cgroup hierarchies are the real ones. Containers are below
//     CgroupParent, which is removed at the end, and so are those of guests that
//     were not there before.
//
// What is not a test calls Enter instead, and gives its own TB.
//
// A scenario reads like this:
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
//	// err, and machine.Unbroken(ticks): the guest never missed a beat
//
//	engine.Kill() // a crash; engine.Start() comes back to the same data
//
// Daemons end with their test. If it failed, the last lines of their logs are
// printed. All of it needs Debian packages alone; an error that names a missing
// program ends with the way to install it.
//
// Where the capability bounding set is restricted, as in some containers, runc
// can start no privileged container. There, Dockerd makes Docker use a runtime
// that asks for less, see package bounded; Runtime is its path, for others.
package machine
