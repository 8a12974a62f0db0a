package stack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kollet/kollet/test/nodetest"
)

// control makes the test's machine the control machine: Ansible and the installed
// collection.
func (s *site) control() {
	s.t.Helper()
	source, err := filepath.Abs("../../playbooks")
	s.check(err)
	s.check(os.MkdirAll(s.path("home"), 0o755))
	s.write("ansible.cfg", fmt.Sprintf(`[defaults]
inventory = %[1]s/inventory/hosts.yml
collections_path = %[1]s/collections
local_tmp = %[1]s/tmp
timeout = 60
retry_files_enabled = false
interpreter_python = /usr/bin/python3
[ssh_connection]
pipelining = true
ssh_args = -o ControlMaster=auto -o ControlPersist=600s -o UserKnownHostsFile=%[1]s/known_hosts -o StrictHostKeyChecking=accept-new -i %[1]s/key
control_path_dir = /run/ansible-cp
`, s.dir))
	s.ansible("ansible-galaxy", "collection", "build", "--output-path", s.path("built"), source).exits(0)
	archives, err := filepath.Glob(s.path("built/*.tar.gz"))
	if err != nil || len(archives) != 1 {
		s.t.Fatalf("built %v, %v; want one archive", archives, err)
	}
	s.ansible("ansible-galaxy", "collection", "install", "--offline", "--collections-path", s.path("collections"), archives[0]).exits(0)
}

// version writes the inventory: the stack's nodes with another version of their images.
func (s *site) version(tag string) {
	s.t.Helper()
	addresses := s.output("addresses")
	hosts := ""
	for i, node := range nodes {
		hosts += fmt.Sprintf("    %s: {ansible_host: %s}\n", node, addresses[i])
	}
	s.write("inventory/hosts.yml", "kollet:\n  hosts:\n"+hosts+"  vars: {ansible_user: debian, ansible_become: true}\n")
	s.write("inventory/group_vars/kollet/kollet.yml", fmt.Sprintf(`
kollet_binary_src: %s
kollet_config_dir: "{{ inventory_dir }}/config"
kollet_node:
%s`, nodetest.Program(s.t, "kollet"), "  "+strings.ReplaceAll(strings.TrimSpace(s.nodeFile(tag)), "\n", "\n  ")+"\n"))
	for path, content := range overrides {
		s.write("inventory/config/"+path, content)
	}
}

// breakNode gives a node a setting with which nova-compute ends at its start.
func (s *site) breakNode(node string) {
	s.t.Helper()
	s.write("inventory/config/nova/"+node+"/nova.conf", "[DEFAULT]\ncompute_driver = libvirt.NoSuchDriver\n")
}

func (s *site) repairNode(node string) {
	s.t.Helper()
	s.check(os.RemoveAll(s.path("inventory/config/nova/" + node)))
}

// runs requires that a node's services are healthy and of a version.
func (s *site) runs(node, version string) {
	s.t.Helper()
	r := s.ansible("ansible", node, "-m", "command", "-a", "kollet --output json status").exits(0)
	if n := strings.Count(r.out, ":"+version+`"`); n != 3 {
		s.t.Fatalf("%s runs %d services of %s, want 3\n%s", node, n, version, r.out)
	}
	s.ansible("ansible", node, "-m", "command", "-a", "kollet verify").exits(0)
}

// run is the result of one of Ansible's programs.
type run struct {
	s    *site
	what string
	code int
	out  string
}

// play runs one of the collection's playbooks.
func (s *site) play(name string, args ...string) run {
	s.t.Helper()
	return s.ansible("ansible-playbook", append([]string{"kollet.kollet." + name}, args...)...)
}

// ansible runs one of Ansible's programs. They are scripts, and need Debian's Python even
// if PATH has another one first.
func (s *site) ansible(name string, args ...string) run {
	s.t.Helper()
	began := time.Now()
	cmd := exec.Command("/usr/bin/python3", append([]string{"/usr/bin/" + name}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "ANSIBLE_CONFIG="+s.path("ansible.cfg"), "PWD="+s.dir, "HOME="+s.path("home"), "LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		s.t.Fatalf("run %s: %v", name, err)
	}
	r := run{s, strings.Join(append([]string{name}, args...), " "), cmd.ProcessState.ExitCode(), string(out)}
	s.t.Logf("%s: exit status %d, %.0f s\n%s", r.what, r.code, time.Since(began).Seconds(), r.out)
	return r
}

// exits requires an exit status: 0, or 2 if a node failed.
func (r run) exits(code int) run {
	r.s.t.Helper()
	if r.code != code {
		r.s.t.Fatalf("%s: exit status %d, want %d", r.what, r.code, code)
	}
	return r
}

// prints requires each of the texts in the output, ignoring white space.
func (r run) prints(texts ...string) run {
	r.s.t.Helper()
	flat := strings.Join(strings.Fields(r.out), " ")
	for _, text := range texts {
		if !strings.Contains(flat, text) {
			r.s.t.Fatalf("%s: %q is missing", r.what, text)
		}
	}
	return r
}
