package fleet

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kollet/kollet/test/site"
)

// secret is a value that may only be in one file of each node.
const secret = "s3cr3t-t0ken"

// inventory writes the inventory: the nodes run two services that answer the version
// they were configured for. Braces in the files are kollet's templates, not Ansible's.
func (c *control) inventory() {
	c.T.Helper()
	hosts := ""
	for _, n := range c.nodes {
		hosts += fmt.Sprintf("    %s: {ansible_host: %s}\n", n.Name, n.Address)
		c.probe(n, 7001)
	}
	c.Write("inventory/hosts.yml", "kollet:\n  hosts:\n"+hosts+"  vars: {ansible_user: root}\n")
	c.Write("inventory/config/alpha.conf", "[override]\nby = operator\n")
	binary, err := filepath.Abs("../../bin/kollet")
	if err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil {
		c.T.Fatalf("%v: run make build", err)
	}
	c.Write("inventory/group_vars/kollet/kollet.yml", fmt.Sprintf(`
kollet_binary_src: %s
kollet_config_dir: "{{ inventory_dir }}/config"
kollet_secrets: {token: %s}
kollet_gate_delay: 1
kollet_node:
  profile: none
  images: {registry: %s/test, tag: "{{ version }}"}
  vars: {word: "{{ version }}"}
  services:
    alpha:
      image: tiny
      command: [serve, "127.0.0.1:7001", /etc/alpha.word]
      stop_grace_period: 5s
      config:
        - {content: !unsafe "{{ .vars.word }}\ntoken = {{ secret \"token\" }}\n", dest: /etc/alpha.word, owner: root, perm: "0600"}
        - {content: !unsafe "[main]\nword = {{ .vars.word }}\n", format: ini, overrides: [alpha.conf], dest: /etc/alpha.conf, owner: root, perm: "0600"}
      healthcheck: [{tcp: !unsafe "127.0.0.1:{{ .vars.probe }}", start_period: 10s, stable: 500ms, interval: 50ms}]
    beta:
      image: tiny
      command: [serve, "127.0.0.1:7002", /etc/beta.word]
      stop_grace_period: 5s
      depends_on: [alpha]
      config:
        - {content: !unsafe "{{ .vars.word }}\n", dest: /etc/beta.word, owner: root, perm: "0600"}
      healthcheck: [{tcp: "127.0.0.1:7002", start_period: 1m, stable: 500ms, interval: 50ms}]
`, binary, secret, site.RegistryAddr))
}

// version sets the version that all nodes must run.
func (c *control) version(tag string) {
	c.T.Helper()
	c.Write("inventory/group_vars/kollet/version.yml", "version: "+tag+"\n")
}

// probe sets the port that a node's probe of alpha connects to.
func (c *control) probe(n testNode, port int) {
	c.T.Helper()
	c.Write("inventory/host_vars/"+n.Name+".yml", fmt.Sprintf("kollet_node_extra: {vars: {probe: \"%d\"}}\n", port))
}

// hooks writes hooks that log when a node is drained, passes its gate and is undrained,
// and returns the arguments that enable them.
func (c *control) hooks() []string {
	c.T.Helper()
	for _, what := range []string{"drain", "gate", "undrain"} {
		c.Write(what+".yml", fmt.Sprintf(`
- name: Log the hook
  ansible.builtin.shell: echo "%s {{ inventory_hostname }}" >>%s
  delegate_to: localhost
`, what, c.Path("hooks.log")))
	}
	return []string{"-e", "kollet_drain=" + c.Path("drain.yml"), "-e", "kollet_gate=" + c.Path("gate.yml"), "-e", "kollet_undrain=" + c.Path("undrain.yml")}
}

// hooked returns the log of the hooks and removes it.
func (c *control) hooked() string {
	c.T.Helper()
	data, err := os.ReadFile(c.Path("hooks.log"))
	if err != nil && !os.IsNotExist(err) {
		c.T.Fatal(err)
	}
	_ = os.Remove(c.Path("hooks.log"))
	return string(data)
}
