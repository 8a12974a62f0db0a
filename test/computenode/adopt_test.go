package computenode

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// kollaStart makes the image of libvirt start as Kolla's do: with a script that copies the
// configuration, unless kollet-start has, and executes the command of config.json.
const kollaStart = `#!/bin/sh -eu
config=/var/lib/kolla/config_files
if [ ! -e /configured ]; then
	cp $config/libvirtd.conf /etc/libvirt/libvirtd.conf
	sed -n 's/.*"command": "\([^"]*\)".*/\1/p' $config/config.json >/run_command
fi
exec libvirt-start $(cat /run_command)
`

const (
	kollaDescription = `{
  "command": "libvirtd",
  "config_files": [{"source": "/var/lib/kolla/config_files/libvirtd.conf", "dest": "/etc/libvirt/libvirtd.conf", "owner": "root", "perm": "0600"}]
}`
	kollaLibvirtd = "listen_tls = 0\nunix_sock_rw_perms = \"0770\"\nauth_unix_ro = \"none\"\nauth_unix_rw = \"none\"\nlog_outputs = \"3:stderr\"\n"
)

// kollaNode is a node on which kolla-ansible runs libvirt.
type kollaNode struct {
	*nodetest.Compute
	id    string                      // of the container nova_libvirt
	virsh func(args ...string) string // in the libvirt that runs
}

// TestAdopt takes a node of kolla-ansible over under its guests, and gives it back.
func TestAdopt(t *testing.T) {
	nodetest.ShareRun(t)
	registry := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "registry"))))
	image := pushKollaLibvirt(t, registry)
	k := &kollaNode{Compute: nodetest.NewCompute(t, "none", nodetest.OnDocker(machine.Dockerd(t)), registry)}
	k.startLibvirt(image)
	k.bootGuest("before", "7f5f1a3c-6f0e-4b6e-9f3a-2d0a4f7b9c11")
	first := k.process("before")
	if cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", first.PID)); err != nil || !strings.Contains(string(cgroup), k.id) {
		t.Fatalf("the guest is not in the container's cgroup, so nothing would end with it: %v\n%s", err, cgroup)
	}

	t.Log(k.Must(0, "adopt").All())
	k.Healthy(1)
	k.Must(0, "verify")
	k.keeps(map[string]guest.Guest{"before": first})
	if state := k.docker("inspect", "--format", "{{.Id}} {{.State.Status}}", "nova_libvirt"); state != k.id+" exited" {
		t.Errorf("kolla-ansible's container: %s", state)
	}
	k.virsh = func(args ...string) string {
		return k.Must(0, append([]string{"exec", "nova-libvirt", "--", "virsh"}, args...)...).Stdout
	}
	k.bootGuest("after", "9a0c7d52-1d5f-4c9a-8a39-0d1f6f1b2c3d")
	second := k.process("after")
	k.Must(0, "gc")

	t.Log(k.Must(0, "rollback", "0").All())
	k.Healthy(2)
	if state := k.docker("inspect", "--format", "{{.Id}} {{.State.Status}} {{.HostConfig.RestartPolicy.Name}}", "nova_libvirt"); state != k.id+" running no" {
		t.Errorf("kolla-ansible's container: %s", state)
	}
	k.keeps(map[string]guest.Guest{"before": first, "after": second})
	if list := k.docker("exec", "nova_libvirt", "virsh", "list", "--name"); list != "after\nbefore" && list != "before\nafter" {
		t.Errorf("kolla-ansible's libvirt knows %q", list)
	}
}

// pushKollaLibvirt pushes an image of libvirt that starts as Kolla's do, and returns its name.
func pushKollaLibvirt(t *testing.T, registry *machine.Registry) string {
	t.Helper()
	parse := func(ref string) name.Tag {
		tag, err := name.NewTag(registry.Addr+"/kolla/"+ref, name.Insecure)
		check(t, err)
		return tag
	}
	base, err := remote.Image(parse("nova-libvirt:" + oldVersion))
	check(t, err)
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	check(t, w.WriteHeader(&tar.Header{Name: "usr/local/bin/kolla_start", Mode: 0o755, Size: int64(len(kollaStart))}))
	_, err = w.Write([]byte(kollaStart))
	check(t, err)
	check(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil })
	check(t, err)
	image, err := mutate.AppendLayers(base, layer)
	check(t, err)
	config, err := image.ConfigFile()
	check(t, err)
	config = config.DeepCopy()
	config.Config.Cmd = []string{"kolla_start"}
	image, err = mutate.ConfigFile(image, config)
	check(t, err)
	tag := parse("nova-libvirt:kolla")
	check(t, remote.Write(tag, image))
	return tag.String()
}

func (k *kollaNode) docker(args ...string) string {
	k.T.Helper()
	out, err := exec.Command("docker", append([]string{"-H", k.On.Address}, args...)...).CombinedOutput()
	if err != nil {
		k.T.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// startLibvirt creates and starts nova_libvirt with what kolla-ansible gives it
// (kolla-ansible: roles/nova-cell/defaults/main.yml).
func (k *kollaNode) startLibvirt(image string) {
	k.T.Helper()
	dir := "/etc/kolla/nova-libvirt"
	k.Write(dir+"/config.json", kollaDescription)
	k.Write(dir+"/libvirtd.conf", kollaLibvirtd)
	check(k.T, os.MkdirAll(k.Path("/modules"), 0o755)) // a machine without modules may have no /lib/modules
	k.docker("pull", image)
	k.id = k.docker("create", "--name", "nova_libvirt", "--network", "host", "--restart", "no", "--privileged", "--pid", "host", "--cgroupns", "host",
		"--env", "KOLLA_CONFIG_STRATEGY=COPY_ALWAYS", "--env", "KOLLA_SERVICE_NAME=nova-libvirt",
		"--ulimit", "nofile=1048576:1048576", "--ulimit", "memlock=67108864:67108864",
		"--volume", k.Path(dir)+"/:/var/lib/kolla/config_files/:ro", "--volume", "kolla_logs:/var/log/kolla/",
		"--volume", k.Path("/modules")+":/lib/modules:ro", "--volume", "/run:/run:shared", "--volume", "/dev:/dev", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup",
		"--volume", "libvirtd:/var/lib/libvirt", "--volume", "nova_compute:/var/lib/nova/", "--volume", "nova_libvirt_qemu:/etc/libvirt/qemu",
		"--health-cmd", "virsh version --daemon", "--health-interval", "30s", "--health-timeout", "30s", "--health-retries", "3", image)
	k.T.Cleanup(func() { _ = exec.Command("docker", "-H", k.On.Address, "rm", "--force", k.id).Run() })
	k.docker("start", k.id)
	k.virsh = func(args ...string) string {
		return k.docker(append([]string{"exec", "nova_libvirt", "virsh"}, args...)...)
	}
	for end := time.Now().Add(nodetest.Patience); exec.Command("docker", "-H", k.On.Address, "exec", "nova_libvirt", "virsh", "version", "--daemon").Run() != nil; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			k.T.Fatalf("libvirt does not answer:\n%s", k.docker("logs", "nova_libvirt"))
		}
	}
}

func (k *kollaNode) guestDir(name string) string { return filepath.Join(k.Instances(), name) }

// bootGuest has the libvirt that runs start a guest, and waits until it counts.
func (k *kollaNode) bootGuest(name, uuid string) {
	k.T.Helper()
	machine.PlaceGuest(k.T, k.guestDir(name))
	at := "/var/lib/nova/instances/" + name
	check(k.T, os.WriteFile(filepath.Join(k.guestDir(name), "domain.xml"), []byte(machine.GuestXML(name, uuid, at)), 0o644))
	k.virsh("define", at+"/domain.xml")
	k.virsh("start", name)
	machine.AwaitTick(k.T, filepath.Join(k.guestDir(name), machine.Console), 5)
}

// process returns the process of a guest.
func (k *kollaNode) process(name string) guest.Guest {
	k.T.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(k.T, err)
	for _, path := range all {
		text, _ := os.ReadFile(path) // it may have exited
		if strings.HasPrefix(string(text), "/usr/bin/qemu-system") && strings.Contains(string(text), "guest="+name+",") {
			g := guest.Guest{Name: name}
			_, err := fmt.Sscanf(path, "/proc/%d/cmdline", &g.PID)
			check(k.T, err)
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.PID))
			check(k.T, err)
			_, err = fmt.Sscan(strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[19], &g.Start) // proc_pid_stat(5)
			check(k.T, err)
			return g
		}
	}
	k.T.Fatalf("no process of guest %s", name)
	return guest.Guest{}
}

// keeps requires that guests are the same processes, that kollet knows them, and that they have
// counted all the time and still do.
func (k *kollaNode) keeps(before map[string]guest.Guest) {
	k.T.Helper()
	if known := k.Guests(); len(known) != len(before) {
		k.T.Errorf("kollet knows the guests %+v", known)
	}
	for name, was := range before {
		if now := k.process(name); !now.Same(was) {
			k.T.Fatalf("guest %s is another process: %+v, now %+v", name, was, now)
		}
		console := filepath.Join(k.guestDir(name), machine.Console)
		ticks, err := machine.Ticks(console)
		check(k.T, err)
		machine.AwaitTick(k.T, console, ticks[len(ticks)-1]+3)
		ticks, err = machine.Ticks(console)
		check(k.T, err)
		check(k.T, machine.Unbroken(ticks))
	}
}
