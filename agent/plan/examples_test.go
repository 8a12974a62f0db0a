package plan

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

const examples = "../../configs/examples"

// exampleImages has the image of each service that an example adds to a new node.
var exampleImages = map[string]map[string]string{
	"lab.yaml":             images("127.0.0.1:5000/kolla", "nova-libvirt", "nova-compute", "neutron-linuxbridge-agent"),
	"kvm-linuxbridge.yaml": images("registry.example.com:5000/kolla", "nova-libvirt", "nova-compute", "neutron-linuxbridge-agent"),
	"openvswitch.yaml": images("registry.example.com:5000/kolla", "nova-libvirt", "nova-compute",
		"openvswitch-db-server", "openvswitch-vswitchd", "neutron-openvswitch-agent"),
	"ovn.yaml":        onOVN(),
	"containerd.yaml": with(onOVN(), "telegraf", "registry.example.com:5000/library/telegraf:1.33"),
	"air-gapped.yaml": onOVN(),
	"ceph.yaml":       onCeph(),
}

func onOVN() map[string]string {
	return images("registry.example.com:5000/kolla", "nova-libvirt", "nova-compute",
		"openvswitch-db-server", "openvswitch-vswitchd", "ovn-controller", "neutron-ovn-metadata-agent")
}

func onCeph() map[string]string {
	all := onOVN()
	maps.Copy(all, images("registry.example.com:5000/kolla", "nova-ssh", "cron", "ceilometer-compute", "prometheus-node-exporter", "prometheus-libvirt-exporter"))
	return all
}

func images(registry string, services ...string) map[string]string {
	all := map[string]string{}
	for _, s := range services {
		all[s] = registry + "/" + s + ":26.2.2"
	}
	return all
}

func with(all map[string]string, service, image string) map[string]string {
	all[service] = image
	return all
}

// emptyEngine is an engine of a new node: no images, no containers.
type emptyEngine struct {
	shelf
	name string
}

func (e emptyEngine) Info(context.Context) (containers.Info, error) {
	return containers.Info{Name: e.name}, nil
}

func (emptyEngine) Image(context.Context, string) (containers.Image, error) {
	return containers.Image{}, containers.ErrNotFound
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob(examples + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	if want := slices.Sorted(maps.Keys(exampleImages)); !slices.Equal(names, want) {
		t.Fatalf("%s has %v, and this test expects %v", examples, names, want)
	}
	for name, want := range exampleImages {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for _, change := range planExample(t, name).Changes {
				if change.Action != Add {
					t.Errorf("%s: %s, want it to be added", change.Service, change.Action)
				}
				got[change.Service] = change.Image.To
			}
			if !maps.Equal(got, want) {
				t.Errorf("the plan has\n%v, want\n%v", got, want)
			}
		})
	}
}

// planExample plans a new node that has an example as its node file, on a host
// that has what a compute node has.
func planExample(t *testing.T, name string) Plan {
	t.Helper()
	root := t.TempDir()
	n := &node.Node{Root: root, Name: "cmp1", Host: host.Host{Root: filepath.Join(root, "host")}}
	for _, dir := range []string{"dev", "lib/modules", "run", "sys/fs/cgroup"} {
		if err := os.MkdirAll(filepath.Join(n.Host.Root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(filepath.Join(examples, name))
	if err != nil {
		t.Fatal(err)
	}
	put(t, n.NodeFilePath(), string(file))
	for _, secret := range []string{"rabbit_password", "nova_password", "placement_password", "neutron_password", "metadata_secret", "influxdb_token",
		"ceph_nova_key", "ceph_cinder_key", "nova_ssh_private_key", "nova_ssh_public_key", "ceilometer_password"} {
		put(t, n.Path("/etc/kollet/secrets/"+secret), "a secret value\n")
	}
	at, err := target.Read(n, target.Options{}, "bootstrap")
	if err != nil {
		t.Fatal(err)
	}
	n.Engine = emptyEngine{name: at.Engine}
	p, _, err := Make(t.Context(), n, at, generation.Generation{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func put(t *testing.T, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
