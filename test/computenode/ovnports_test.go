package computenode

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/test/machine"
)

// ovnNode is a compute node whose switch OVN programs, with two ports of a logical switch.
type ovnNode struct {
	*compute
	central *machine.OVN
}

func (n *ovnNode) in(t *testing.T) *ovnNode { return &ovnNode{n.compute.in(t), n.central} }

const (
	firstPort, secondPort       = "port1", "port2"
	firstAddress, secondAddress = "10.9.0.11", "10.9.0.12"
)

// vsctl runs ovs-vsctl where the switch runs.
func (n *ovnNode) vsctl(args ...string) string {
	n.T.Helper()
	return strings.TrimSpace(n.Must(0, append([]string{"exec", "openvswitch-vswitchd", "--", "ovs-vsctl", "--timeout=60"}, args...)...).Stdout)
}

// setting returns a value of the switch's external_ids.
func (n *ovnNode) setting(key string) string {
	n.T.Helper()
	return strings.Trim(n.vsctl("--if-exists", "get", "Open_vSwitch", ".", "external_ids:"+key), `"`)
}

// chassis returns the id of this node's record in the southbound database.
func (n *ovnNode) chassis() string {
	n.T.Helper()
	return n.central.South(n.T, "--bare", "--columns=_uuid", "find", "chassis", "name=compute-1")
}

// flows returns how long each OpenFlow flow has been in br-int.
func (n *ovnNode) flows() (ages []time.Duration) {
	n.T.Helper()
	for line := range strings.Lines(n.Must(0, "exec", "openvswitch-vswitchd", "--", "ovs-ofctl", "dump-flows", "br-int").Stdout) {
		_, rest, found := strings.Cut(line, "duration=")
		if !found {
			continue
		}
		text, _, _ := strings.Cut(rest, ",")
		age, err := time.ParseDuration(text)
		check(n.T, err)
		ages = append(ages, age)
	}
	if len(ages) == 0 {
		n.T.Fatal("br-int has no flows")
	}
	return ages
}

// plug makes a logical switch, and a network namespace for each of its two ports. The first
// gets its address from the test, the second by OVN's DHCP.
func (n *ovnNode) plug() {
	n.T.Helper()
	n.central.North(n.T, "ls-add", "net", "--", "set", "logical_switch", "net", "other_config:subnet=10.9.0.0/24",
		"--", "lsp-add", "net", firstPort, "--", "lsp-set-addresses", firstPort, "02:00:00:00:00:01 "+firstAddress,
		"--", "lsp-add", "net", secondPort, "--", "lsp-set-addresses", secondPort, "02:00:00:00:00:02 "+secondAddress,
		"--", "--id=@dhcp", "create", "dhcp_options", "cidr=10.9.0.0/24", `options={lease_time="3600",server_id="10.9.0.1",server_mac="02:00:00:00:00:ff"}`,
		"--", "set", "logical_switch_port", secondPort, "dhcpv4_options=@dhcp")
	for i, port := range []string{firstPort, secondPort} {
		tap, mac := "tap-"+port, fmt.Sprintf("02:00:00:00:00:0%d", i+1)
		run(n.T, exec.Command("ip", "netns", "add", port))
		run(n.T, exec.Command("ip", "link", "add", tap, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", port))
		run(n.T, exec.Command("ip", "link", "set", tap, "up"))
		run(n.T, exec.Command("ip", "-n", port, "link", "set", "eth0", "up"))
		n.vsctl("add-port", "br-int", tap, "--", "set", "Interface", tap, "external_ids:iface-id="+port)
	}
	run(n.T, exec.Command("ip", "-n", firstPort, "address", "add", firstAddress+"/24", "dev", "eth0"))
}

// unplug removes the ports and their namespaces. The interfaces go first: the kernel removes
// those of a namespace only some time after its name is gone.
func unplug() {
	for _, port := range []string{firstPort, secondPort} {
		_ = exec.Command("ip", "link", "delete", "tap-"+port).Run()
		_ = exec.Command("ip", "netns", "delete", port).Run()
	}
}

// lease asks OVN's DHCP for the second port's address.
func (n *ovnNode) lease() {
	n.T.Helper()
	script := filepath.Join(n.T.TempDir(), "lease")
	check(n.T, os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" != bound ] || ip address replace \"$ip/$mask\" dev \"$interface\"\n"), 0o755))
	n.inside(secondPort, "udhcpc", "-i", "eth0", "-n", "-q", "-t", "60", "-T", "1", "-s", script)
	contains(n.T, run(n.T, exec.Command("ip", "-n", secondPort, "address", "show", "dev", "eth0")), secondAddress+"/24")
}

// inside runs a program of busybox in the namespace of a port.
func (n *ovnNode) inside(port string, args ...string) string {
	n.T.Helper()
	return run(n.T, exec.Command("ip", append([]string{"netns", "exec", port, "busybox"}, args...)...))
}

// bound requires that both ports are bound to this chassis and up, and that one reaches the
// other.
func (n *ovnNode) bound() {
	n.T.Helper()
	chassis := n.chassis()
	for _, port := range []string{firstPort, secondPort} {
		n.Await(port+" is bound and up", func() bool {
			got := n.central.South(n.T, "--bare", "--columns=chassis,up", "find", "port_binding", "logical_port="+port)
			return chassis != "" && strings.Join(strings.Fields(got), " ") == chassis+" true"
		})
	}
	n.inside(firstPort, "ping", "-c", "3", "-w", "60", secondAddress)
}

// stream is a steady stream of packets from the first port to the second, which answers
// each of them.
type stream struct {
	client, server net.PacketConn
	stop           chan struct{}
	done           chan struct{}
	sent           int
	answered       map[uint32]bool
}

// stream sends packets, 100 in a second, until it is ended.
func (n *ovnNode) stream() *stream {
	n.T.Helper()
	s := &stream{
		client: listenIn(n.T, firstPort, firstAddress+":7000"), server: listenIn(n.T, secondPort, secondAddress+":7000"),
		stop: make(chan struct{}), done: make(chan struct{}), answered: map[uint32]bool{},
	}
	go func() {
		packet := make([]byte, 4)
		for {
			length, from, err := s.server.ReadFrom(packet)
			if err != nil {
				return
			}
			_, _ = s.server.WriteTo(packet[:length], from) // what is lost counts
		}
	}()
	go s.receive()
	go s.send(&net.UDPAddr{IP: net.ParseIP(secondAddress), Port: 7000})
	return s
}

func (s *stream) receive() {
	defer close(s.done)
	packet := make([]byte, 4)
	for {
		if _, _, err := s.client.ReadFrom(packet); err != nil {
			return
		}
		s.answered[binary.BigEndian.Uint32(packet)] = true
	}
}

func (s *stream) send(to net.Addr) {
	// The last answers may take a moment.
	defer func() { _ = s.client.SetReadDeadline(time.Now().Add(2 * time.Second)) }()
	packet := make([]byte, 4)
	for range time.Tick(10 * time.Millisecond) {
		select {
		case <-s.stop:
			return
		default:
		}
		binary.BigEndian.PutUint32(packet, uint32(s.sent))
		_, _ = s.client.WriteTo(packet, to)
		s.sent++
	}
}

// end stops the stream, and returns how many packets were sent and not answered.
func (s *stream) end() (sent, lost int) {
	close(s.stop)
	<-s.done
	_ = s.client.Close()
	_ = s.server.Close()
	return s.sent, s.sent - len(s.answered)
}

// withoutChecksum has the kernel send datagrams without checksum. A virtual interface leaves it
// to hardware, and the userspace datapath passes on what is unfinished.
func withoutChecksum(_, _ string, socket syscall.RawConn) (err error) {
	set := func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) }
	if failed := socket.Control(set); failed != nil {
		return failed
	}
	return err
}

// listenIn opens a socket for UDP in a network namespace.
func listenIn(t testing.TB, namespace, address string) (conn net.PacketConn) {
	t.Helper()
	done := make(chan error)
	go func() { // the thread ends with this function: it stays in the namespace
		runtime.LockOSThread()
		done <- func() error {
			file, err := os.Open("/run/netns/" + namespace)
			if err != nil {
				return err
			}
			defer file.Close()
			if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			conn, err = (&net.ListenConfig{Control: withoutChecksum}).ListenPacket(t.Context(), "udp4", address)
			return err
		}()
	}()
	check(t, <-done)
	return conn
}
