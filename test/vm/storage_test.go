package vm

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/machine"
)

// storageNode returns a node file with what a node needs for volumes of a SAN. nova-compute only
// waits: the test attaches the volume in its container, and starts no server.
func storageNode(tag string) string {
	return fmt.Sprintf(`images: {registry: %s, tag: %q}
network: none
vars: {virt_type: qemu, rabbit_host: 127.0.0.1, auth_url: none, iscsid_enabled: true, multipathd_enabled: true, volume_use_multipath: true}
secrets: {rabbit_password: {file: /etc/kollet/secrets/rabbit}}
services:
  nova-libvirt: {disabled: true}
  nova-compute:
    image: nova-compute:%s
    command: [sleep, infinity]
    preload: {python: false, modules: []}
    depends_on: []
    replace_with_dependencies: false
    requires: []
    healthcheck: [{exec: ["true"]}]
`, repository, tag, oldVersion)
}

// TestStorage writes to a volume over two paths of iSCSI while iscsid and multipathd are replaced,
// and then while a path fails, which the new ones have to notice and to repair.
func TestStorage(t *testing.T) {
	volume := newTarget(t)
	n := newNode(t, plan{
		name: "storage", seed: "nocloud", direct: true, memory: 2048, outer: true, nodeFile: storageNode(oldVersion),
		files: map[string]string{"etc/kollet/secrets/rabbit": "none\n"},
		tools: func(dir string) {
			images := imagesOf(t, "extra", "iscsid:"+oldVersion, "iscsid:"+newVersion, "multipathd:"+oldVersion, "multipathd:"+newVersion)
			maps.Copy(images, nodeImages(t, "nova-compute:"+oldVersion))
			archive(t, filepath.Join(dir, imagesFile), images)
		},
	})
	n.powerOn()
	n.firstBoot()

	device := n.volume("attach")
	disk := n.awaitPaths(2)
	if real := strings.TrimSpace(n.must("readlink", "--canonicalize", device)); real != strings.TrimSpace(n.must("readlink", "--canonicalize", disk)) {
		t.Errorf("nova-compute attached %s, which is not %s", device, disk)
	}
	sessions := n.sessions()
	writer := n.startWriter(disk)
	writer.goesOn()

	n.write(nodeFile, storageNode(newVersion))
	before := n.healthy()
	t.Log(n.must("kollet", "upgrade"))
	for i, s := range n.healthy().Services {
		if was := before.Services[i]; (s.Container == was.Container) != (s.Name == "nova-compute") {
			t.Errorf("%s is %+v, and was %+v", s.Name, s, was)
		}
	}
	writer.goesOn()
	if now := n.sessions(); !slices.Equal(now, sessions) {
		t.Errorf("sessions were %q, and are %q", sessions, now)
	}
	if now := n.awaitPaths(2); now != disk {
		t.Errorf("the disk was %s, and is %s", disk, now)
	}
	n.must("kollet", "verify")

	n.must("ip", "route", "add", "blackhole", portals[1])
	n.awaitPaths(1)
	writer.goesOn()
	n.must("ip", "route", "del", "blackhole", portals[1])
	n.awaitPaths(2)
	writer.goesOn()
	writer.stop()
	writer.compare(volume)
	n.detach()
}

// The target has two portals, as that of a SAN with two networks.
const (
	targetName = "iqn.2026-01.com.example:volume"
	volumeSize = 64 << 20
)

var portals = []string{"192.0.2.1", "192.0.2.2"}

// newTarget starts a target of iSCSI on this machine, and returns the file of its volume.
func newTarget(t *testing.T) (volume string) {
	t.Helper()
	for _, address := range portals {
		run(t, "ip", "address", "add", address+"/32", "dev", "lo")
		t.Cleanup(func() { run(t, "ip", "address", "del", address+"/32", "dev", "lo") })
	}
	dir := machine.Dir(t, "target")
	volume = filepath.Join(dir, "volume")
	check(t, os.WriteFile(volume, nil, 0o600))
	check(t, os.Truncate(volume, volumeSize))
	log, err := os.Create(filepath.Join(dir, "log"))
	check(t, err)
	t.Cleanup(func() { log.Close() })
	socket := append(os.Environ(), "TGT_IPC_SOCKET="+filepath.Join(dir, "socket"))
	daemon := exec.Command("tgtd", "--foreground", "--iscsi", fmt.Sprintf("portal=%s:3260,portal=%s:3260", portals[0], portals[1]))
	daemon.Env, daemon.Stdout, daemon.Stderr = socket, log, log
	check(t, daemon.Start())
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait() // returns an error because it was killed
		if text, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("tgtd: %s%v", text, err)
		}
	})
	admin := func(args ...string) error {
		cmd := exec.Command("tgtadm", append([]string{"--lld", "iscsi"}, args...)...)
		cmd.Env = socket
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("tgtadm %s: %w: %s", args, err, out)
		}
		return nil
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err := admin("--op", "new", "--mode", "target", "--tid", "1", "--targetname", targetName); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	check(t, admin("--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "--backing-store", volume))
	check(t, admin("--op", "bind", "--mode", "target", "--tid", "1", "--initiator-address", "ALL"))
	return volume
}

// volumeDriver attaches or detaches the volume as nova-compute does for a server: by its driver,
// with its configuration and its way to root.
const volumeDriver = `
import shlex, sys
from nova import config, utils
config.parse_args(['nova-compute', '--config-file', '/etc/nova/nova.conf'], configure_db=False, init_rpc=False)
from oslo_privsep import priv_context
priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
from nova.virt.libvirt.volume import iscsi

action, target, *portals = sys.argv[1:]
volume = {'data': {
    'target_discovered': False, 'target_portal': portals[0], 'target_iqn': target, 'target_lun': 1,
    'target_portals': portals, 'target_iqns': [target] * len(portals), 'target_luns': [1] * len(portals)}}
driver = iscsi.LibvirtISCSIVolumeDriver(None)
if action == 'attach':
    driver.connect_volume(volume, None)
    print(volume['data']['device_path'])
else:
    driver.disconnect_volume(volume, None)
`

func (n *node) volume(action string) string {
	n.t.Helper()
	argv := []string{"kollet", "exec", "nova-compute", "--", "python3", "-c", volumeDriver, action, targetName}
	for _, address := range portals {
		argv = append(argv, address+":3260")
	}
	return strings.TrimSpace(n.must(argv...))
}

// sessions returns the sessions of iSCSI, in the order of their names: tcp: [NUMBER] PORTAL,GROUP TARGET.
func (n *node) sessions() []string {
	n.t.Helper()
	lines := strings.Split(strings.TrimSpace(n.must("kollet", "exec", "iscsid", "--", "iscsiadm", "--mode", "session")), "\n")
	slices.Sort(lines)
	if len(lines) != 2 {
		n.t.Fatalf("sessions: %q", lines)
	}
	return lines
}

// awaitPaths waits until a multipath device has this many paths in use, and returns the device.
func (n *node) awaitPaths(want int) (disk string) {
	n.t.Helper()
	show := func(what, format string) string {
		return n.do("kollet", "exec", "multipathd", "--", "multipathd", "show", what, "raw", "format", format).Stdout
	}
	for deadline := time.Now().Add(workTime); ; time.Sleep(time.Second) {
		devices, paths := strings.Fields(show("maps", "%w")), show("paths", "%d %t %o %T")
		if len(devices) == 1 && strings.Count(paths, "active running ready") == want {
			disk = "/dev/mapper/" + devices[0]
			n.must("test", "-b", disk)
			return disk
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("devices %q, want one with %d paths:\n%s", devices, want, paths)
		}
	}
}

// detach requires that nothing is left of the volume.
func (n *node) detach() {
	n.t.Helper()
	n.volume("detach")
	if a := n.do("kollet", "exec", "iscsid", "--", "iscsiadm", "--mode", "session"); a.Status != 21 { // ISCSI_ERR_NO_OBJS_FOUND
		n.t.Errorf("sessions: exit status %d: %s%s", a.Status, a.Stdout, a.Stderr)
	}
	if left := n.do("sh", "-c", "ls -d /sys/class/iscsi_session/* /sys/block/sd* /sys/block/dm-* 2>/dev/null").Stdout; left != "" {
		n.t.Errorf("it left %s", left)
	}
	n.healthy()
}

// writer writes its count to a disk in the node, each number to the next sector, and ends if one
// cannot be written.
type writer struct {
	*node
	disk string
	last int
}

const (
	writerUnit    = "writer"
	writerCount   = "/run/writer"
	writerSectors = 1000
)

func (n *node) startWriter(disk string) *writer {
	n.t.Helper()
	script := fmt.Sprintf(`i=0
while :; do
	i=$((i + 1))
	printf '%%511d\n' $i | dd of=%s bs=512 count=1 iflag=fullblock oflag=direct seek=$((i %% %d)) conv=notrunc status=none || exit 1
	echo $i >%s.new && mv %[3]s.new %[3]s
done`, disk, writerSectors, writerCount)
	n.must("systemd-run", "--unit", writerUnit, "sh", "-c", script)
	return &writer{node: n, disk: disk}
}

// count returns the last number that was written.
func (w *writer) count() int {
	w.t.Helper()
	text := strings.TrimSpace(w.do("cat", writerCount).Stdout)
	if text == "" {
		return 0
	}
	count, err := strconv.Atoi(text)
	check(w.t, err)
	return count
}

// goesOn waits until the writer has written some more.
func (w *writer) goesOn() {
	w.t.Helper()
	from := w.count()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		if now := w.count(); now >= from+20 {
			w.t.Logf("the writer is at %d", now)
			return
		}
		if w.do("systemctl", "is-active", writerUnit).Status != 0 || time.Now().After(deadline) {
			w.t.Fatalf("the writer stopped at %d:\n%s", w.count(), w.do("journalctl", "--no-pager", "-b", "-u", writerUnit).Stdout)
		}
	}
}

func (w *writer) stop() {
	w.t.Helper()
	w.must("systemctl", "stop", writerUnit)
	w.last = w.count()
}

// compare requires that the numbers are on the disk, and in the file of the volume.
func (w *writer) compare(volume string) {
	w.t.Helper()
	data, err := os.ReadFile(volume)
	check(w.t, err)
	for i := max(1, w.last-writerSectors/2); i <= w.last; i++ {
		at := i % writerSectors * 512
		if got, err := strconv.Atoi(strings.TrimSpace(string(data[at : at+512]))); err != nil || got != i {
			w.t.Fatalf("sector %d of the volume has %q, want %d", i%writerSectors, data[at:at+512], i)
		}
	}
	read := w.must("dd", "if="+w.disk, "bs=512", "count=1", "iflag=direct", fmt.Sprint("skip=", w.last%writerSectors), "status=none")
	contains(w.t, read, fmt.Sprintf(" %d\n", w.last))
}
