package adopt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A config.yaml means what the same config.json does, and hides one that says something else.
func TestYAML(t *testing.T) {
	for _, c := range []struct{ name, json, yaml, want string }{
		{
			name: "the same",
			json: `{"command": "/usr/bin/run --it", "config_files": [
				{"source": "/var/lib/kolla/config_files/nova.conf", "dest": "/etc/nova/nova.conf", "owner": "nova", "perm": "0600", "optional": true},
				{"source": "/var/lib/kolla/config_files/ceph", "dest": "/etc/ceph", "owner": "nova", "perm": "0600", "optional": true}],
				"permissions": [{"path": "/var/log/kolla/nova", "owner": "nova:kolla", "recurse": true, "exclude": ["/x$"]}]}`,
			yaml: `---
command: /usr/bin/run --it  # a comment
config_files:
  - &file
    source: /var/lib/kolla/config_files/nova.conf
    dest: /etc/nova/nova.conf
    owner: nova
    perm: "0600"
    optional: yes
  - <<: *file
    source: /var/lib/kolla/config_files/ceph
    dest: /etc/ceph
permissions:
  - {path: /var/log/kolla/nova, owner: nova:kolla, recurse: on, exclude: [/x$]}
`,
		},
		{name: "a number as mode", yaml: "command: x\npermissions:\n- {path: /a, owner: nova, perm: 0600}\n", want: "config.yaml: permissions.perm: expected a string, found a number; put it in quotes"},
		{name: "a boolean as owner", yaml: "command: x\npermissions:\n- {path: /a, owner: on}\n", want: "config.yaml: permissions.owner: expected a string, found true or false; put it in quotes"},
		{name: "a list as owner", yaml: "command: x\npermissions:\n- {path: /a, owner: [on]}\n", want: "config.yaml: permissions.owner: expected a string, found a list"},
		{name: "a list", yaml: "[]\n", want: "config.yaml: expected an object, found a list"},
		{name: "text as a list", yaml: "command: x\npermissions: /a\n", want: "config.yaml: permissions: expected a list, found a string"},
		{name: "a key that is there twice", yaml: "command: x\ncommand: y\n", want: "config.yaml: line 2, column 1: the key command is there twice, first in line 1"},
		{name: "no YAML", yaml: "command: x\n y: z\n", want: "config.yaml: not valid YAML near line 2: "},
		{name: "nothing", yaml: "# command: x\n", want: "config.yaml: the file is empty"},
		{name: "no command", yaml: "command: ' '\n", want: "config.yaml: it has no command"},
		{name: "a file from elsewhere", yaml: "command: x\nconfig_files: [{source: /opt/x, dest: /x, owner: root, perm: '0600'}]\n", want: "config.yaml copies /opt/x, which is not below /var/lib/kolla/config_files"},
		{name: "an empty file", yaml: "command: x\nfiles: [{path: /x, owner: root, perm: '0600'}]\n", want: "config.yaml creates the empty file /x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e engine
			e.kolla(t, "nova_compute", c.json, nil)
			dir := e.all[0].Spec.Mounts[0].Source
			before, _ := e.read(t, Options{})
			e.write(t, filepath.Join(dir, "config.json"), plainConfig)
			e.write(t, filepath.Join(dir, "config.yaml"), c.yaml)
			p, _ := e.read(t, Options{})
			if c.want == "" {
				if p.NodeFile != before.NodeFile || len(p.Blocked) > 0 {
					t.Errorf("from config.yaml (%v):\n%s\nfrom config.json:\n%s", p.Blocked, p.NodeFile, before.NodeFile)
				}
				return
			}
			if len(p.Blocked) != 1 || !strings.Contains(p.Blocked[0].String(), c.want) {
				t.Errorf("blocked: %v\nwant %s", p.Blocked, c.want)
			}
		})
	}
}

// A change of the file that is read counts, and one of config.json that is not.
func TestChangedYAML(t *testing.T) {
	var e engine
	e.kolla(t, "nova_compute", "", nil)
	dir := e.all[0].Spec.Mounts[0].Source
	e.write(t, filepath.Join(dir, "config.yaml"), "command: x\n")
	for _, name := range []string{"config.json", "config.yaml"} {
		path := filepath.Join(dir, name)
		data, _ := os.ReadFile(path)
		if err := errors.Join(os.WriteFile(path, data, 0o600), os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
		p, _ := e.read(t, Options{})
		if got := strings.Contains(p.NodeFile, "that were made since it was started: config.yaml\n"); got != (name == "config.yaml") {
			t.Errorf("%s is new:\n%s", name, p.NodeFile)
		}
	}
}

// write writes a file as it was before the containers were started.
func (engine) write(t *testing.T, path, content string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chtimes(path, old, old)); err != nil {
		t.Fatal(err)
	}
}

// A whole directory is a source, and a directory whose owner is set is not one that is created.
func TestDirectories(t *testing.T) {
	var e engine
	e.kolla(t, "nova_compute", `{"command": "x", "config_files": [{"source": "/var/lib/kolla/config_files/", "dest": "/etc/nova/", "owner": "nova", "perm": "0600"}],
		"permissions": [{"path": "/var/lib/nova/", "owner": "nova", "recurse": true}, {"path": "/", "owner": "root"}]}`, nil)
	dir := e.all[0].Spec.Mounts[0].Source
	newer := filepath.Join(dir, "nova.conf")
	if err := errors.Join(os.WriteFile(newer, nil, 0o600), os.Chtimes(newer, time.Time{}, time.Now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	p, _ := e.read(t, Options{})
	for _, want := range []string{"source: " + dir + "/,", "made since it was started: nova.conf\n", "{path: /var/lib/nova, ", "{path: /, "} {
		if !strings.Contains(p.NodeFile, want) {
			t.Errorf("%q is missing in:\n%s", want, p.NodeFile)
		}
	}
}
