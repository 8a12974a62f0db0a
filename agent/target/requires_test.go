package target

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
)

// What the compute profile's services require depends on the node's variables.
func TestProfileRequires(t *testing.T) {
	for name, c := range map[string]struct {
		network, vars string
		want          []string
	}{
		"without Keystone": {"linuxbridge", "auth_url: none, placement_url: 'http://10.0.0.5:8778'", []string{
			"neutron-linuxbridge-agent: amqp amqp://10.0.0.5:5672", "nova-compute: amqp amqp://10.0.0.5:5672",
		}},
		"with Keystone": {"none", "auth_url: 'http://10.0.0.5:5000/v3'", []string{
			"nova-compute: amqp amqp://10.0.0.5:5672", "nova-compute: http http://10.0.0.5:5000/v3",
		}},
		"with Ceilometer": {"none", "auth_url: 'http://10.0.0.5:5000/v3', ceilometer_compute_enabled: true", []string{
			"ceilometer-compute: amqp amqp://10.0.0.5:5672", "ceilometer-compute: http http://10.0.0.5:5000/v3",
			"nova-compute: amqp amqp://10.0.0.5:5672", "nova-compute: http http://10.0.0.5:5000/v3",
		}},
		"with TLS and Placement": {"openvswitch", "auth_url: 'https://k:5000/v3', placement_url: 'https://p', rabbit_tls: true, rabbit_port: 5671, rabbit_host: '2001:db8::5', ca_file: /ca.pem", []string{
			"openvswitch-vswitchd: exec sh -c # compare the schema of the database with that of ovs-vswitchd …",
			"neutron-openvswitch-agent: amqp amqps://[2001:db8::5]:5671 /ca.pem", "nova-compute: amqp amqps://[2001:db8::5]:5671 /ca.pem",
			"nova-compute: http https://k:5000/v3 /ca.pem", "nova-compute: http https://p /ca.pem",
		}},
		"with OVN": {"ovn", "auth_url: none, ovn_sb_connection: ['tcp:10.0.0.5:6642', 'tcp:10.0.0.6:6642'], my_ip: 10.0.0.21, nova_metadata_host: 10.0.0.5", []string{
			"openvswitch-vswitchd: exec sh -c # compare the schema of the database with that of ovs-vswitchd …",
			"ovn-controller: ovsdb tcp:10.0.0.5:6642,tcp:10.0.0.6:6642", "ovn-controller: exec sh -c # compare the versions of ovn-controller and ovn-northd …",
			"neutron-ovn-metadata-agent: ovsdb tcp:10.0.0.5:6642,tcp:10.0.0.6:6642",
			"nova-compute: amqp amqp://10.0.0.5:5672",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node.Node{Root: t.TempDir(), Name: "host", Host: host.Host{Root: t.TempDir()}}
			for _, dir := range []string{"/run", "/dev", "/lib/modules", "/sys/fs/cgroup"} {
				if err := os.MkdirAll(n.Host.Root+dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			var secrets []string
			for _, s := range []string{"rabbit", "nova", "placement", "neutron", "ceilometer"} {
				secrets = append(secrets, fmt.Sprintf("%s_password: {file: /etc/kollet/secret}", s))
			}
			if c.network == "ovn" {
				secrets = append(secrets, "metadata_secret: {file: /etc/kollet/secret}")
			}
			if !strings.Contains(c.vars, "rabbit_host") {
				c.vars += ", rabbit_host: 10.0.0.5"
			}
			text := fmt.Sprintf("network: %s\nimages: {tag: x}\nvars: {%s}\nsecrets: {%s}\n", c.network, c.vars, strings.Join(secrets, ", "))
			if err := os.MkdirAll(n.Path("/etc/kollet"), 0o700); err != nil {
				t.Fatal(err)
			}
			for path, content := range map[string]string{node.DefaultNodeFile: text, "/etc/kollet/secret": "hunter2-hunter2\n"} {
				if err := os.WriteFile(n.Path(path), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			target, err := Read(n, Options{}, "upgrade")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range target.Services {
				for _, p := range s.Requires {
					kind, address := p.Address()
					got = append(got, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", s.Name, kind, address, p.CAFile)))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
