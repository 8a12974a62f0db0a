package extra

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

const (
	rabbitPassword = "r4bb1tPassw0rd"
	cephKey        = "QVFCa2V5b2Z0aGV1c2Vy" // any base64: no Ceph is asked
	novaSecret     = "8d9ad5f6-2b1a-4f5e-9d3e-0d6b1c1f6a11"
	cinderSecret   = "5b1a3c1e-7a44-4c34-b1c8-2f0a4b0f9e22"
	guestUUID      = "7f5f1a3c-6f0e-4b6e-9f3a-2d0a4f7b9c11"
	address        = "192.0.2.21" // the node's: QEMU refuses 127.0.0.1 for migrations
)

// services are those that need no modules of the kernel.
var services = []string{"ceilometer-compute", "cron", "nova-ssh", "prometheus-libvirt-exporter", "prometheus-node-exporter"}

var (
	check    = nodetest.Check
	contains = nodetest.Contains
)

// TestExtraServices runs the services that are switched off by default beside a guest, uses
// each as its clients do, and upgrades and removes them.
func TestExtraServices(t *testing.T) {
	nodetest.ShareRun(t)
	registry := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "registry"))))
	extra := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "extra"))))
	machine.NewRabbit(t, rabbitPassword)
	t.Run("docker", func(t *testing.T) {
		lifecycle(t, newCompute(t, nodetest.OnDocker(machine.Dockerd(t)), registry, extra))
	})
	t.Run("containerd", func(t *testing.T) {
		lifecycle(t, newCompute(t, nodetest.OnContainerd(machine.NewContainerd(t, machine.BoundedRuntime())), registry, extra))
	})
}

type compute struct {
	*nodetest.Compute
	extra *machine.Registry
}

func newCompute(t *testing.T, engine nodetest.Engine, registry, extra *machine.Registry) *compute {
	c := &compute{nodetest.NewCompute(t, "none", engine, registry), extra}
	for _, args := range []string{"address add " + address + "/24 dev " + nodetest.Interface, "link set " + nodetest.Interface + " up"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	c.Vars = map[string]string{
		"rabbit_host": "127.0.0.1", "auth_url": "none", "my_ip": address, "rbd_secret_uuid": novaSecret, "cinder_rbd_secret_uuid": cinderSecret,
		"images_type": "rbd", "ceph_mon_host": "192.0.2.1", "logrotate_schedule": "hourly", "logrotate_max_size": "1k",
		"live_migration": "tcp", "live_migration_sasl": "true",
	}
	for _, name := range services {
		c.Vars[strings.ReplaceAll(name, "-", "_")+"_enabled"] = "true"
	}
	c.use(nodetest.OldVersion)
	// A test machine's root directory is no shared mount.
	c.More = map[string]string{
		"prometheus-node-exporter": "    volumes: [{source: /, target: /host, read_only: true}]\n",
		"nova-api":                 novaService,
	}
	c.Write(novaFile, novaConf)
	private, public := keyPair(t)
	c.Secrets = map[string]string{}
	for name, value := range map[string]string{
		"rabbit_password": rabbitPassword, "ceph_nova_key": cephKey, "ceph_cinder_key": cephKey, "libvirt_sasl_password": "s@sl$ecret",
		"nova_ssh_private_key": private, "nova_ssh_public_key": public, "ceilometer_password": "none",
	} {
		c.Secrets[name] = "/etc/kollet/secrets/" + name
		c.Write(c.Secrets[name], value)
	}
	return c
}

// use makes the node file name the images of a version.
func (c *compute) use(version string) {
	c.Extra = map[string]string{"nova-api": c.Registry.Addr + "/kolla/nova-compute:" + nodetest.OldVersion}
	for _, name := range services {
		c.Extra[name] = fmt.Sprintf("%s/kolla/%s:%s", c.extra.Addr, name, version)
	}
}

func (c *compute) in(t *testing.T) *compute { return &compute{c.In(t), c.extra} }

// exec runs a command in a service's container, as the service's user.
func (c *compute) exec(code int, service string, argv ...string) nodetest.Outcome {
	c.T.Helper()
	return c.Must(code, append([]string{"exec", service, "--"}, argv...)...)
}

func lifecycle(t *testing.T, c *compute) {
	c.Upgrade()
	c.Healthy(1)
	for _, part := range []struct {
		name string
		test func(*testing.T, *compute)
	}{
		{"the images know all options", knownOptions},
		{"nova copies files over SSH, and nobody else logs in", copies},
		{"libvirt has the secrets of Ceph", cephSecrets},
		{"libvirt of another node needs the password", sasl},
		{"the exporters have the machine's and a guest's metrics", metrics},
		{"Ceilometer gets samples of a guest", samples},
		{"logs are rotated while they are written", rotation},
		{"an upgrade replaces them, and the next one nothing", upgrade},
		{"libvirt is replaced under them", libvirtReplaced},
		{"a service that is switched off is removed", switchOff},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, c.in(t)) }) {
			return
		}
	}
}

func knownOptions(t *testing.T, c *compute) {
	paths, err := filepath.Glob(c.Path(filepath.Join(node.StateDir, "journal", "*")))
	if err != nil || len(paths) == 0 {
		t.Fatalf("journals: %q, %v", paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		check(t, err)
		if strings.Contains(string(data), ".conf: unknown") {
			t.Errorf("the images do not know all options:\n%s", data)
		}
	}
}

// copies does what nova-compute does in a cold migration: it makes a directory on the other
// node, here the same one, and copies a disk to it.
func copies(t *testing.T, c *compute) {
	ssh := func(code int, argv ...string) nodetest.Outcome {
		t.Helper()
		return c.exec(code, "nova-compute", append([]string{"ssh", "-o", "BatchMode=yes"}, argv...)...)
	}
	const dir = "/var/lib/nova/instances/copied"
	c.exec(0, "nova-compute", "sh", "-c", "head -c 3000000 /dev/urandom >/tmp/disk")
	ssh(0, address, "mkdir", "-p", dir)
	c.exec(0, "nova-compute", "scp", "-r", "-C", "/tmp/disk", address+":"+dir+"/scp")
	c.exec(0, "nova-compute", "rsync", "--archive", "--sparse", "--rsh=ssh -o BatchMode=yes", "/tmp/disk", address+":"+dir+"/rsync")
	for _, name := range []string{"scp", "rsync"} {
		c.exec(0, "nova-compute", "cmp", "/tmp/disk", dir+"/"+name)
		info, err := os.Stat(filepath.Join(c.Instances(), "copied", name))
		check(t, err)
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 42436 || info.Size() != 3000000 {
			t.Errorf("%s has %d bytes and belongs to %d", name, info.Size(), owner)
		}
	}
	ssh(255, "-l", "root", address, "true")
	ssh(255, "-o", "IdentityFile=none", "-F", "none", "-o", "StrictHostKeyChecking=no", "-p", "8022", address, "true")
}

func cephSecrets(t *testing.T, c *compute) {
	contains(t, c.exec(0, "nova-libvirt", "virsh", "secret-list").Stdout, novaSecret, cinderSecret, "client.nova secret", "client.cinder secret")
	for _, uuid := range []string{novaSecret, cinderSecret} {
		if got := strings.TrimSpace(c.exec(0, "nova-libvirt", "virsh", "--quiet", "secret-get-value", uuid).Stdout); got != cephKey {
			t.Errorf("secret %s has the value %q", uuid, got)
		}
	}
	contains(t, c.exec(0, "nova-compute", "cat", "/etc/ceph/ceph.client.nova.keyring", "/etc/ceph/ceph.conf").Stdout, cephKey, "mon_host = 192.0.2.1")
	c.exec(0, "nova-compute", "python3", "-c", "import rados, rbd; rados.Rados(conffile='/etc/ceph/ceph.conf', rados_id='nova')")
	c.exec(0, "nova-compute", "sh", "-c", "for p in rbd swtpm /sbin/multipath; do command -v $p || exit 1; done; id -u tss")
}

// sasl connects as libvirt on another node does for a migration.
func sasl(t *testing.T, c *compute) {
	const uri = "qemu+tcp://" + address + "/system"
	contains(t, c.exec(0, "nova-libvirt", "virsh", "-c", uri, "uri").Stdout, "qemu")
	wrong := "sed 's/^password=.*/password=wrong/' /etc/libvirt/auth.conf >/tmp/wrong && virsh -c '" + uri + "?authfile=/tmp/wrong' uri"
	contains(t, c.exec(1, "nova-libvirt", "sh", "-c", wrong).Stderr, "authentication failed")
}

func metrics(t *testing.T, c *compute) {
	dir := filepath.Join(c.Instances(), guestUUID)
	machine.PlaceGuest(t, dir)
	xml := strings.Replace(machine.GuestXML("ticker", guestUUID, "/var/lib/nova/instances/"+guestUUID), "<memory ", novaMetadata+"<memory ", 1)
	check(t, os.WriteFile(filepath.Join(dir, "domain.xml"), []byte(xml), 0o644))
	c.exec(0, "nova-libvirt", "virsh", "define", "/var/lib/nova/instances/"+guestUUID+"/domain.xml")
	c.exec(0, "nova-libvirt", "virsh", "start", "ticker")
	machine.AwaitTick(t, filepath.Join(dir, machine.Console), 3)

	contains(t, get(t, "9177"), "libvirt_up 1", `domain="ticker"`)
	var memory struct{ total uint64 }
	data, err := os.ReadFile("/proc/meminfo")
	check(t, err)
	if _, err := fmt.Sscanf(string(data), "MemTotal: %d kB", &memory.total); err != nil {
		t.Fatal(err)
	}
	text := get(t, "9100")
	contains(t, text, fmt.Sprintf("node_memory_MemTotal_bytes %g\n", float64(memory.total*1024)), "node_filesystem_size_bytes{", `mountpoint="/"`)
}

func get(t *testing.T, port string) string {
	t.Helper()
	answer, err := http.Get("http://" + address + ":" + port + "/metrics")
	check(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check(t, err)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("port %s answers %s: %s", port, answer.Status, body)
	}
	return string(body)
}

func rotation(t *testing.T, c *compute) {
	dir := filepath.Join(c.On.Volume(c.Root, "kolla_logs"), "service")
	check(t, os.MkdirAll(dir, 0o755))
	log, err := os.OpenFile(filepath.Join(dir, "service.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	check(t, err)
	defer log.Close()
	_, err = log.WriteString(strings.Repeat("before\n", 1000))
	check(t, err)
	c.exec(0, "cron", "run-parts", "--exit-on-error", "/etc/cron.hourly")
	_, err = log.WriteString("after\n")
	check(t, err)
	for name, want := range map[string]string{"service.log": "after\n", "service.log.1": strings.Repeat("before\n", 1000)} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s has %d bytes, want %d; %v", name, len(got), len(want), err)
		}
	}
}

func upgrade(t *testing.T, c *compute) {
	guest, cpu := c.Guests(), c.sampled().Volume
	before := c.Status()
	c.use(nodetest.NewVersion)
	c.Upgrade()
	for _, was := range before.Services {
		now := c.Service(was.Name)
		if slices.Contains(services, was.Name) == (now.Container == was.Container) {
			t.Errorf("%s was in %s, and is in %s", was.Name, was.Container, now.Container)
		}
	}
	if now := c.Guests(); len(now) != 1 || !now[0].Same(guest[0].Guest) {
		t.Errorf("guests: %+v, now %+v", guest, now)
	}
	contains(t, get(t, "9177"), "libvirt_up 1", `domain="ticker"`)
	c.exec(0, "nova-compute", "ssh", "-o", "BatchMode=yes", address, "true")
	if now := c.sampled().Volume; now <= cpu {
		t.Errorf("the guest had %g ns of processor time, and has %g", cpu, now)
	}
	c.Must(0, "verify")
	c.Configure()
	var r struct{ Outcome journal.Outcome }
	c.Ask(&r, "upgrade")
	if r.Outcome != journal.Unchanged {
		t.Errorf("upgrade again: %+v", r)
	}
}

func switchOff(t *testing.T, c *compute) {
	c.use(nodetest.NewVersion)
	c.Vars["cron_enabled"] = "false"
	delete(c.Extra, "cron")
	c.Upgrade()
	for _, s := range c.Status().Services {
		if s.Name == "cron" {
			t.Errorf("cron is still there: %+v", s)
		}
	}
}

// keyPair returns a key pair of SSH.
func keyPair(t *testing.T) (private, public string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	for name, content := range map[string]*string{file: &private, file + ".pub": &public} {
		data, err := os.ReadFile(name)
		check(t, err)
		*content = string(data)
	}
	return private, public
}
