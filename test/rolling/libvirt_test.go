package rolling

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

const guestName, guestUUID = "ticker", "7f5f1a3c-6f0e-4b6e-9f3a-2d0a4f7b9c11"

// TestLibvirtMigratesGuests moves a guest with its disk between two nodes that share no
// storage, with each way in which libvirt lets other nodes connect, and upgrades libvirt
// under a guest that arrived from another node.
func TestLibvirtMigratesGuests(t *testing.T) {
	s := newSite(t)
	a, b := newCompute(s, 1), newCompute(s, 2)
	certify(t, a, b)
	for _, c := range []*compute{a, b} {
		c.libvirtAlone()
		c.vars = append(c.vars, "live_migration: tls")
		c.volumes = []string{c.Path("pki") + ":/etc/pki:ro"}
		c.configure()
		c.Await()
		c.Run("kollet bootstrap")
		c.placeGuest()
	}
	a.boot()
	if out, err := a.migrate(b, "tcp"); err == nil {
		t.Fatalf("a node with live_migration tls accepts connections without TLS\n%s", out)
	}
	for _, way := range []string{"tls", "tcp"} {
		for _, c := range []*compute{a, b} {
			c.vars = append(c.vars[:len(c.vars)-1], "live_migration: "+way)
			c.upgrade()
		}
		out, err := a.migrate(b, way)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		b.version = nodetest.NewVersion
		b.upgrade()
		if out, err = b.migrate(a, way); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if guests := a.guests(); len(guests) != 1 {
			t.Fatalf("guests: %+v", guests)
		}
		count := slices.Concat(a.ticks(), b.ticks())
		slices.Sort(count)
		check(t, machine.Unbroken(count))
	}
	inMigration(t, a, b)
}

// inMigration upgrades both sides of a migration that is under way. Without --force that is
// refused. With --force the migration fails, and the guest keeps running where it was; whether
// the upgrade succeeds is not promised.
func inMigration(t *testing.T, from, to *compute) {
	t.Helper()
	guest := from.guests()[0].Guest
	slow := from.migration(to, "tcp", "--bandwidth 1")
	check(t, slow.Start())
	for until := time.Now().Add(cloud.Patience); !strings.Contains(to.exec("nova-libvirt", "virsh list --all"), guestName); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the migration did not begin")
		}
	}
	for _, c := range []*compute{from, to} {
		c.more = "quiesce: {wait: 1s}\n"
		c.version = map[string]string{nodetest.OldVersion: nodetest.NewVersion, nodetest.NewVersion: nodetest.OldVersion}[c.version]
		c.configure()
		out, err := c.Try("kollet upgrade")
		if err == nil {
			t.Fatalf("%s: an upgrade does not see a migration\n%s", c.Name, out)
		}
		t.Log(err)
		for _, text := range []string{"quiesce: ", "guest " + guestName + " (" + guestUUID + ") has a job: ", " migration", "; waited "} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q is missing in %v", c.Name, text, err)
			}
		}
	}
	to.configure()
	out, err := to.Try("kollet upgrade --force 2>&1")
	t.Log(out, err)
	if err := slow.Wait(); err == nil {
		t.Error("a migration succeeded although its libvirt was replaced")
	}
	ticks := from.ticks()
	machine.AwaitTick(t, from.console(), ticks[len(ticks)-1]+3)
	if now := from.guests(); len(now) != 1 || !now[0].Same(guest) {
		t.Errorf("guests: %+v, want the one that was there before: %+v", now, guest)
	}
	t.Log(from.exec("nova-libvirt", "virsh list --all"), to.exec("nova-libvirt", "virsh list --all"))
	if out, err = from.migrate(to, "tcp"); err != nil {
		t.Errorf("migrate again: %v\n%s", err, out)
	}
}

// guestDir is the guest's directory in the volume nova_compute.
func (c *compute) guestDir() string {
	return c.Path("docker/volumes/nova_compute/_data/instances/" + guestUUID)
}

// diskSize is that of the guest's disk, in MiB.
const diskSize = 16

// placeGuest puts what the guest needs on the node: kernel, ramdisk, and a disk that is
// still empty, as Nova does before a live migration.
func (c *compute) placeGuest() {
	t := c.Site.T
	t.Helper()
	machine.PlaceGuest(t, c.guestDir())
	check(t, os.WriteFile(filepath.Join(c.guestDir(), "disk"), nil, 0o600))
	check(t, os.Truncate(filepath.Join(c.guestDir(), "disk"), diskSize<<20))
	c.Site.Must("chown", "-R", fmt.Sprint(novaID), c.guestDir())
}

// boot defines and starts the guest, with a disk full of data.
func (c *compute) boot() {
	t := c.Site.T
	t.Helper()
	c.Site.Must("dd", "if=/dev/urandom", "of="+filepath.Join(c.guestDir(), "disk"), "bs=1M", fmt.Sprint("count=", diskSize), "conv=notrunc", "status=none")
	dir := "/var/lib/nova/instances/" + guestUUID
	disk := "<devices>\n    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='" + dir + "/disk'/><target dev='vda' bus='virtio'/></disk>"
	xml := strings.Replace(machine.GuestXML(guestName, guestUUID, dir), "<devices>", disk, 1)
	check(t, os.WriteFile(filepath.Join(c.guestDir(), "domain.xml"), []byte(xml), 0o644))
	c.exec("nova-libvirt", "virsh define "+dir+"/domain.xml")
	c.exec("nova-libvirt", "virsh start "+guestName)
	machine.AwaitTick(t, c.console(), 3)
}

func (c *compute) console() string { return filepath.Join(c.guestDir(), machine.Console) }

func (c *compute) ticks() []int {
	c.Site.T.Helper()
	all, err := machine.Ticks(c.console())
	check(c.Site.T, err)
	return all
}

// migration is a command that moves the guest to another node, with Nova's options.
func (c *compute) migration(to *compute, way string, options ...string) *exec.Cmd {
	args := []string{"docker exec nova-libvirt virsh migrate --live --p2p --persistent --undefinesource --copy-storage-all --migrateuri tcp://" + to.Address, guestName, "qemu+" + way + "://" + to.Address + "/system"}
	if way == "tls" {
		args = append(args, "--tls")
	}
	return c.SSH(strings.Join(append(args, options...), " "))
}

// migrate moves the guest to another node, and waits until it counts on there.
func (c *compute) migrate(to *compute, way string) (string, error) {
	c.Site.T.Helper()
	before := c.ticks()
	out, err := c.migration(to, way).CombinedOutput()
	if err == nil {
		machine.AwaitTick(c.Site.T, to.console(), before[len(before)-1]+2)
	}
	return string(out), err
}
