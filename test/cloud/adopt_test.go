package cloud_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/kolla"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// TestAdopt takes a node of kolla-ansible over under a server of Nova, makes another, and gives the
// node back under both.
func TestAdopt(t *testing.T) {
	nodetest.ShareRun(t)
	c := cloud.New(t)
	registry := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "registry"))))
	m := enlist(t, c, "linuxbridge", onDocker(t), registry)
	k := m.byKolla()
	began := time.Now()
	m.seen(began)
	network, _ := m.networks()
	m.kept = append(m.kept, m.create("before", network))

	began = time.Now()
	t.Log(m.Must(0, "adopt").All())
	m.Healthy(1)
	m.Must(0, "verify")
	m.spared()
	m.seen(m.lastStart(began))
	m.beats()
	m.kept = append(m.kept, m.create("after", network))
	m.works()
	m.spared()

	t.Log(m.Must(0, "rollback", "0").All())
	m.Healthy(2)
	for _, s := range kollaServices {
		if state := k.State(s.container); !strings.HasSuffix(state, " running no") {
			t.Errorf("%s: %s", s.container, state)
		}
	}
	m.spared()
	m.beats()
	m.works()
	for _, s := range m.kept {
		m.api.Delete(s.id)
	}
}

// beats waits for two heartbeats of nova-compute. It also writes its record while it starts, when it
// enables its service, and calls a server that is then created an interrupted one
// (_error_out_instances_whose_build_was_interrupted in nova/compute/manager.py).
func (m *member) beats() {
	m.T.Helper()
	for range 2 {
		m.seen(time.Now())
	}
}

// kollaServices are kolla-ansible's containers on the node, with what their roles give them
// (kolla-ansible: roles/nova-cell/defaults/main.yml and roles/neutron/defaults/main.yml of 2024.1).
var kollaServices = []struct {
	container, owner, command, health string
	settings                          []string
}{
	{kolla.Libvirt, "root", "kolla_nova_libvirt_start", "virsh version --daemon", nil},
	{"nova_compute", "nova", "nova-compute", "healthcheck_port nova-compute 5672", []string{
		"--privileged", "--ipc", "host", "--env", "LIBGUESTFS_BACKEND=direct",
		"--volume", "/run:/run:shared", "--volume", "/dev:/dev", "--volume", "libvirtd:/var/lib/libvirt", "--volume", "nova_compute:/var/lib/nova/",
	}},
	{"neutron_linuxbridge_agent", "neutron", "neutron-linuxbridge-agent --config-file /etc/neutron/neutron.conf --config-file /etc/neutron/plugins/ml2/linuxbridge_agent.ini",
		"healthcheck_port neutron-linuxbridge-agent 5672", []string{"--privileged"}},
}

// byKolla starts the containers of kolla-ansible on a node that has none yet. Their configuration is
// that of the node's compute profile, whose node file is then removed.
func (m *member) byKolla() *kolla.Ansible {
	m.T.Helper()
	k := kolla.On(m.Node, m.On)
	m.find = k.Guest
	rendered := m.Path("/rendered")
	m.Must(0, "render", rendered)
	for _, s := range kollaServices {
		service := strings.ReplaceAll(s.container, "_", "-")
		image := kolla.PushImage(m.T, m.Registry, service)
		k.Docker("pull", image)
		description := m.kollaFiles(filepath.Join(rendered, service), kolla.Dir(s.container), s.command, s.owner)
		if s.container == kolla.Libvirt {
			k.CreateLibvirt(image, description)
			k.AwaitAnswer(s.container, strings.Fields(s.health)...)
			continue
		}
		settings := append(kolla.Health(s.health), "--volume", k.Modules()+":/lib/modules:ro")
		k.Create(s.container, image, description, append(settings, s.settings...)...)
	}
	for _, path := range []string{rendered, m.Path(node.DefaultNodeFile)} {
		if err := os.RemoveAll(path); err != nil {
			m.T.Fatal(err)
		}
	}
	return k
}

// kollaFiles puts config files of a service into a directory of kolla-ansible, and returns their
// config.json, with each entry on one line.
func (m *member) kollaFiles(rendered, dir, command, owner string) string {
	m.T.Helper()
	type file struct {
		Source string `json:"source"`
		Dest   string `json:"dest"`
		Owner  string `json:"owner"`
		Perm   string `json:"perm"`
	}
	var entries []string
	err := filepath.WalkDir(rendered, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := filepath.Base(path)
		m.Write(dir+"/"+name, string(content))
		entry, err := json.Marshal(file{"/var/lib/kolla/config_files/" + name, strings.TrimPrefix(path, rendered), owner, "0600"})
		entries = append(entries, strings.NewReplacer(`":"`, `": "`, `","`, `", "`).Replace(string(entry)))
		return err
	})
	if err != nil {
		m.T.Fatal(err)
	}
	return `{
  "command": "` + command + `",
  "config_files": [
    ` + strings.Join(entries, ",\n    ") + `
  ]
}`
}
