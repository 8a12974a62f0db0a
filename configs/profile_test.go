package configs_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/ini"
)

var update = flag.Bool("update", false, "write the golden files and the table of variables")

// profile is what the tests read of a profile.
type profile struct {
	Networks map[string][]string `yaml:"networks"`
	Switches map[string]string   `yaml:"switches"`
	Vars     map[string]any      `yaml:"vars"`
	Services map[string]service  `yaml:"services"`
}

type service struct {
	Image       string            `yaml:"image"`
	Privileged  bool              `yaml:"privileged"`
	PID         string            `yaml:"pid"`
	NetworkMode string            `yaml:"network_mode"`
	DependsOn   []string          `yaml:"depends_on"`
	Environment map[string]string `yaml:"environment"`
	Config      []struct {
		Template, Content, Source, Dest, Owner, Perm, Format string
		Overrides                                            []string
		Optional                                             bool
	} `yaml:"config"`
	Healthcheck []struct {
		Exec []string `yaml:"exec"`
	} `yaml:"healthcheck"`
}

func compute(t *testing.T) profile {
	t.Helper()
	body, err := configs.Profile("compute")
	if err != nil {
		t.Fatal(err)
	}
	var p profile
	if err := yaml.Unmarshal(body, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

var secrets = map[string]string{
	"rabbit_password":       `r/b:t @$ecret`,
	"nova_password":         `n0va$ecret`,
	"placement_password":    `"pl@cement"`,
	"neutron_password":      `neutr0n pass`,
	"metadata_secret":       `met@data$ecret`,
	"ceilometer_password":   `ceil0meter$ecret`,
	"nova_ssh_private_key":  "-----BEGIN OPENSSH PRIVATE KEY-----\nits-ssh-key\n-----END OPENSSH PRIVATE KEY-----\n",
	"nova_ssh_public_key":   "ssh-ed25519 AAAApublic nova\n",
	"libvirt_sasl_password": "sasl$ecret",
	"ceph_nova_key":         `AQBnova/+key==`,
	"ceph_cinder_key":       `AQBcinder/+key==`,
	"ovn_ca":                "-----BEGIN CERTIFICATE-----\nca-of-ovn\n-----END CERTIFICATE-----",
	"ovn_certificate":       "-----BEGIN CERTIFICATE-----\nof-this-node\n-----END CERTIFICATE-----",
	"ovn_private_key":       "-----BEGIN PRIVATE KEY-----\nits-key\n-----END PRIVATE KEY-----",
}

func TestProfileRendersAsBefore(t *testing.T) {
	for name, own := range map[string]map[string]any{
		"minimal": {"rabbit_host": "10.0.0.5", "auth_url": "none", "virt_type": "qemu",
			"ovn_sb_connection": "tcp:10.0.0.5:6642", "ovn_encap_ip": "10.1.0.21", "nova_metadata_host": "10.0.0.5"},
		"full": {
			"rabbit_host": "2001:db8::5", "rabbit_tls": true, "rabbit_vhost": "nova", "rabbit_quorum_queues": true,
			"auth_url": "https://keystone.example.org:5000/v3", "ca_file": "/etc/ssl/certs/ca-certificates.crt", "ca_directory": "/etc/kollet/ca",
			"placement_url": "https://placement.example.org", "neutron_url": "https://neutron.example.org", "glance_url": "https://glance.example.org",
			"my_ip": "10.0.0.21", "region": "East", "debug": true, "cpu_mode": "custom", "cpu_models": []any{"Haswell", "Skylake"},
			"live_migration": "tls", "vnc_enabled": true, "serial_console_enabled": true, "tunnel_types": "vxlan", "l2_population": true, "local_ip": "10.1.0.21",
			"physical_interface_mappings": "physnet1:eth1", "bridge_mappings": []any{"physnet1:br-ex", "physnet2:br-dc"},
			"ovn_sb_connection": []any{"ssl:10.0.0.5:6642", "ssl:[2001:db8::6]:6642"}, "ovn_encap_type": "geneve,vxlan",
			"nova_metadata_host": "metadata.example.org", "nova_metadata_protocol": "https",
		},
		"ceph": {
			"rabbit_host": "10.0.0.5", "auth_url": "http://10.0.0.5:5000/v3", "ovn_sb_connection": "tcp:10.0.0.5:6642", "ovn_encap_ip": "10.1.0.21",
			"nova_metadata_host": "10.0.0.5", "images_type": "rbd", "rbd_secret_uuid": "8d9ad5f6-2b1a-4f5e-9d3e-0d6b1c1f6a11",
			"cinder_rbd_secret_uuid": "5b1a3c1e-7a44-4c34-b1c8-2f0a4b0f9e22", "hw_disk_discard": "unmap",
			"ceph_mon_host": []any{"10.2.0.1", "10.2.0.2"}, "ceph_fsid": "c3f2b4ac-9a3d-4ae0-8a35-7e2a4e1c0d33",
			"cinder_region": "West", "cinder_catalog_info": "block-storage:cinder:internalURL",
		},
		"extra": {
			"rabbit_host": "10.0.0.5", "auth_url": "http://10.0.0.5:5000/v3", "ovn_sb_connection": "tcp:10.0.0.5:6642", "ovn_encap_ip": "10.1.0.21",
			"nova_metadata_host": "10.0.0.5", "my_ip": "10.0.0.21", "live_migration": "tls", "live_migration_sasl": true, "notifications_enabled": true, "volume_use_multipath": true,
			"nova_ssh_enabled": true, "nova_ssh_port": 2222, "iscsid_enabled": true, "multipathd_enabled": true, "ceilometer_compute_enabled": true,
			"cron_enabled": true, "logrotate_interval": "daily", "logrotate_count": 3, "logrotate_max_size": "10M",
			"fluentd_enabled": true, "fluentd_forward_to": []any{"10.0.0.5:24224", "[2001:db8::5]:24225"},
			"prometheus_node_exporter_enabled": true, "prometheus_libvirt_exporter_enabled": true,
		},
		"tuned": {
			"rabbit_host": "10.0.0.5", "rabbit_tls": true, "rabbit_ca_file": "/etc/ssl/certs/rabbit.pem", "rabbit_quorum_queues": true,
			"rabbit_transient_quorum_queues": true, "rabbit_stream_fanout": true, "rabbit_queue_manager": true,
			"auth_url": "https://10.0.0.5:5000/v3", "ca_file": "/etc/ssl/certs/ca-certificates.crt", "barbican_enabled": true,
			"ovn_sb_connection": "tcp:10.0.0.5:6642", "ovn_encap_ip": "10.1.0.21", "ovn_cms_options": []any{"enable-chassis-as-gw", "availability-zones=a"},
			"ovn_chassis_mac_mappings": "physnet1:52:54:00:a1:b2:c3", "ovn_monitor_all": true, "nova_metadata_host": "10.0.0.5", "metadata_workers": 2,
			"spice_enabled": true, "spicehtml5proxy_url": "https://console.example.org/spice_auto.html", "spice_require_secure": true,
			"spice_options":         map[string]any{"streaming_mode": "filter", "image_compression": "auto_glz"},
			"notifications_enabled": true, "notification_topics": []any{"notifications", "vitrage"}, "instance_usage_audit_period": "day",
			"cpu_model_extra_flags": []any{"pdpe1gb", "-vmx"}, "hw_machine_type": "x86_64=q35", "num_pcie_ports": 16, "cpu_dedicated_set": "4-12,^8,15",
			"cpu_shared_set": 0, "reserved_host_cpus": 2, "reserved_host_memory_mb": 4096, "reserved_host_disk_mb": 10240,
			"reserved_huge_pages":  []any{"node:0,size:2048,count:64", "node:1,size:1GB,count:1"},
			"cpu_allocation_ratio": 4.5, "ram_allocation_ratio": 1, "disk_allocation_ratio": 1,
			"pci_device_spec": []any{map[string]any{"vendor_id": "8086", "product_id": "1520", "physical_network": "physnet1"}, `{"address": "0000:82:00.0"}`},
			"pci_alias":       `{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}`,
			"swtpm_enabled":   true, "allow_resize_to_same_host": true, "skip_cpu_compare_on_dest": true,
			"libvirt_max_workers": 80, "libvirt_max_client_requests": 40, "qemu_max_files": 32768, "qemu_max_processes": 131072,
			"images_type": "qcow2", "disk_cachemodes": []any{"file=directsync", "block=none"}, "hw_disk_discard": "ignore", "volume_use_multipath": true,
			"nfs_mount_point_base": "/run/nova-mnt", "quobyte_mount_point_base": "/run/quobyte-mnt",
			"vendordata_file": "/etc/kollet/vendordata.json", "provider_config_file": "/etc/kollet/provider.yaml",
			"agent_extensions": []any{"qos", "fdb"}, "fdb_device_mappings": "physnet1:p1p1", "firewall_driver": "noop",
			"distributed_routing": true, "datapath_type": "netdev", "ovsdb_timeout": 30, "l2_population": true, "my_ip": "10.0.0.21", "tunnel_types": "vxlan",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := compute(t)
			vars := over(p.Vars, own)
			renderer := newRenderer(t, configs.Inputs{Vars: vars, KnownVars: slices.Collect(maps.Keys(p.Vars)), Secrets: secrets})
			for service, s := range p.Services {
				if variable, switched := p.Switches[service]; switched && vars[variable] != true {
					continue
				}
				for i, c := range s.Config {
					if c.Source != "" {
						if source, err := renderer.Expand(service, "config", c.Source); err != nil || !slices.Contains(slices.Collect(maps.Values(own)), any(source)) && source != "" {
							t.Errorf("%s: source of %s: %q, %v", service, c.Dest, source, err)
						}
						continue
					}
					dest, err := renderer.Expand(service, "config", c.Dest)
					if err != nil {
						t.Errorf("%s: dest %s: %v", service, c.Dest, err)
					}
					out := render(t, renderer, service, file(s, i))
					if out.Omitted {
						continue
					}
					if strings.HasPrefix(dest, scripts) { // they are the same on every node
						golden(t, filepath.Join("templates", filepath.Base(dest)+".tmpl"), out.Content)
						continue
					}
					base := filepath.Join("testdata", name, service, filepath.Base(dest))
					golden(t, base, out.Content)
					golden(t, base+".public", out.Public)
					noSecrets(t, out.Public, secrets)
				}
			}
			for _, err := range renderer.Unused() {
				t.Errorf("unused: %v", err)
			}
		})
	}
}

// scripts is the directory of the scripts with which services start.
const scripts = "/usr/local/bin/"

// file is one configuration entry of a profile's service, as the agent passes it.
func file(s service, i int) configs.File {
	c := s.Config[i]
	return configs.File{Where: fmt.Sprintf("config[%d]", i), Template: c.Template, Content: c.Content, Name: filepath.Base(c.Dest), Format: c.Format, Overrides: c.Overrides, Optional: c.Optional}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test -update and look at what it writes", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; if that is meant, run go test -update and look at the difference\ngot:\n%s", path, got)
	}
}

// What oslo.config reads from the rendered file is what the operator gave,
// whatever signs a password has.
func TestPasswordsArriveAsGiven(t *testing.T) {
	p := compute(t)
	renderer := newRenderer(t, configs.Inputs{Vars: over(p.Vars, map[string]any{"rabbit_host": "h", "auth_url": "http://k"}), Secrets: secrets})
	out := render(t, renderer, "nova-compute", file(p.Services["nova-compute"], 0))
	f, err := ini.Parse(out.Content)
	if err != nil {
		t.Fatal(err)
	}
	for section, secret := range map[string]string{"placement": "placement_password", "neutron": "neutron_password", "cinder": "nova_password", "service_user": "nova_password"} {
		got := strings.ReplaceAll(read(f, section, "password"), `\$`, "$") // as ConfigOpts._substitute does
		if got != secrets[secret] {
			t.Errorf("[%s] password: got %q, want %q", section, got, secrets[secret])
		}
	}
	if got, want := read(f, "DEFAULT", "transport_url"), "rabbit://openstack:r%2Fb%3At%20%40%24ecret@h:5672//"; got != want {
		t.Errorf("transport_url: got %q, want %q", got, want)
	}
}

// A node with a conductor and without Keystone would restart repeatedly, so the
// operator has to say which of the two it is.
func TestKeystoneHasToBeNamed(t *testing.T) {
	p := compute(t)
	nova := func(url any) (configs.Rendered, error) {
		own := map[string]any{"rabbit_host": "h", "auth_url": url}
		return newRenderer(t, configs.Inputs{Vars: over(p.Vars, own), Secrets: secrets}).Render("nova-compute", file(p.Services["nova-compute"], 0))
	}
	for _, url := range []any{nil, ""} {
		_, err := nova(url)
		wantError(t, err, "nova.conf:3: config[0]: vars.auth_url is not set; set it in the node file to the URL of Keystone, such as http://10.0.0.5:5000/v3, or to none for a test or a demonstration without a control plane")
	}
	for _, url := range []any{"keystone:5000", "None", false} {
		_, err := nova(url)
		wantError(t, err, fmt.Sprintf(`nova.conf:6: config[0]: vars.auth_url is "%v"; expected the URL of Keystone, with http:// or https://, or none`, url))
	}
	for url, want := range map[string]bool{"http://k:5000/v3": true, "https://k/identity/v3": true, "none": false} {
		out, err := nova(url)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{"[placement]", "[neutron]", "[cinder]", "[service_user]"} {
			if got := strings.Contains(string(out.Content), section); got != want {
				t.Errorf("auth_url %s: %s in nova.conf is %v, want %v", url, section, got, want)
			}
		}
	}
}

// The files of libvirt, QEMU and Nova agree about live migration.
func TestLiveMigration(t *testing.T) {
	p := compute(t)
	whole := func(way, ip string, sasl bool) string {
		own := map[string]any{"rabbit_host": "h", "auth_url": "none", "live_migration": way, "my_ip": ip, "live_migration_sasl": sasl}
		r := newRenderer(t, configs.Inputs{Vars: over(p.Vars, own), Secrets: secrets})
		var all string
		for _, name := range []string{"nova-libvirt", "nova-compute"} {
			for i := range p.Services[name].Config {
				out, err := r.Render(name, file(p.Services[name], i))
				if err != nil {
					return err.Error()
				}
				all += string(out.Content)
			}
		}
		return all
	}
	none := []string{"listen_tls = 0\nlisten_tcp = 0\n"}
	both := []string{`listen_addr = "10.0.0.21"`, `migration_address = "10.0.0.21"`, "live_migration_inbound_addr = 10.0.0.21\n"}
	tcp := []string{"listen_tls = 0\nlisten_tcp = 1\n", `auth_tcp = "none"`, "live_migration_scheme = tcp\n", "live_migration_with_native_tls = false"}
	tls := []string{"listen_tls = 1\nlisten_tcp = 0\n", "migrate_tls_x509_verify = 1\n", "migrate_tls_force = 1\n", "live_migration_scheme = tls\n", "live_migration_with_native_tls = true"}
	for _, c := range []struct {
		way, ip    string
		sasl       bool
		want, omit []string
	}{
		{"none", "10.0.0.21", false, none, slices.Concat(both[:2], tcp, tls)},
		{"none", "", true, none, slices.Concat(both, tcp, tls)},
		{"tcp", "10.0.0.21", false, slices.Concat(both, tcp), append(tls, "sasl", "digest-md5")},
		{"tcp", "10.0.0.21", true, slices.Concat(both, []string{`auth_tcp = "sasl"`, "mech_list: digest-md5\n", "authname=nova\npassword=sasl$ecret\n"}), tls},
		{"tls", "10.0.0.21", true, slices.Concat(both, tls, []string{`auth_tls = "sasl"`, "mech_list: scram-sha-256\n", "authname=nova\npassword=sasl$ecret\n"}), tcp},
		{"tls", "10.0.0.21", false, slices.Concat(both, tls), append(tcp, "sasl", "scram")},
		{"tls", "", false, []string{"libvirtd.conf:", "live migration needs an address on which libvirt listens; set vars.my_ip in the node file"}, nil},
	} {
		got := whole(c.way, c.ip, c.sasl)
		for _, text := range c.want {
			if !strings.Contains(got, text) {
				t.Errorf("live_migration %s, my_ip %q: %q is missing in\n%s", c.way, c.ip, text, got)
			}
		}
		for _, text := range c.omit {
			if strings.Contains(got, text) {
				t.Errorf("live_migration %s, my_ip %q: %q is in\n%s", c.way, c.ip, text, got)
			}
		}
	}
}

func TestProfileIsWhole(t *testing.T) {
	p := compute(t)
	renderer := newRenderer(t, configs.Inputs{Vars: over(p.Vars, map[string]any{"rabbit_port": 5673})})
	var networked []string
	for network, names := range p.Networks {
		for _, name := range names {
			if _, ok := p.Services[name]; !ok {
				t.Errorf("networks.%s names %s, which is no service", network, name)
			}
			networked = append(networked, name)
		}
	}
	for name, variable := range p.Switches {
		if _, ok := p.Services[name]; !ok || p.Vars[variable] != false {
			t.Errorf("%s is switched on by %s, which is %v", name, variable, p.Vars[variable])
		}
		if s := p.Services[name]; s.NetworkMode != "host" || s.Privileged != slices.Contains([]string{"iscsid", "multipathd"}, name) {
			t.Errorf("%s has privileges %v and network %s", name, s.Privileged, s.NetworkMode)
		}
	}
	for name, s := range p.Services {
		if _, switched := p.Switches[name]; !switched && (!s.Privileged || s.PID != "host" || s.NetworkMode != "host") {
			t.Errorf("%s lacks privileges, or the host's pid or network namespace", name)
		}
		if len(s.Healthcheck) == 0 {
			t.Errorf("%s has no healthcheck", name)
		}
		for _, dep := range s.DependsOn {
			if _, ok := p.Services[dep]; !ok {
				t.Errorf("%s refers to %s, which is no service", name, dep)
			}
			if slices.Contains(networked, dep) && !slices.Contains(networked, name) {
				t.Errorf("%s refers to %s, which not every network has", name, dep)
			}
		}
		for _, c := range s.Config {
			perm := "0600"
			if strings.HasPrefix(c.Dest, scripts) {
				perm = "0700"
			}
			if c.Owner == "" || c.Perm != perm {
				t.Errorf("%s: %s has the mode %s, want %s", name, c.Dest, c.Perm, perm)
			}
		}
		for _, probe := range s.Healthcheck {
			if len(probe.Exec) == 0 || probe.Exec[0] != "healthcheck_port" || probe.Exec[2] == "6640" { // that of Open vSwitch's database is fixed
				continue
			}
			if got, err := renderer.Expand(name, "probe", probe.Exec[2]); err != nil || got != "5673" {
				t.Errorf("%s is probed at port %q, %v; want rabbit_port", name, got, err)
			}
		}
	}
}

func TestEveryVariableOfTheProfileIsUsed(t *testing.T) {
	body, err := configs.Profile("compute")
	if err != nil {
		t.Fatal(err)
	}
	all := string(body)
	for _, name := range configs.Templates() {
		text, err := configs.Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	for name := range compute(t).Vars {
		switches := slices.Collect(maps.Values(compute(t).Switches))
		if !strings.Contains(all, ".vars."+name) && !slices.Contains(switches, name) {
			t.Errorf("nothing uses %s", name)
		}
	}
}

func over(base, own map[string]any) map[string]any {
	all := map[string]any{}
	for _, m := range []map[string]any{base, own} {
		maps.Copy(all, m)
	}
	return all
}

func newRenderer(t *testing.T, in configs.Inputs) *configs.Renderer {
	t.Helper()
	if in.Host == "" {
		in.Host = "compute-01"
	}
	r, err := configs.New(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func render(t *testing.T, r *configs.Renderer, service string, f configs.File) configs.Rendered {
	t.Helper()
	out, err := r.Render(service, f)
	if err != nil {
		t.Fatalf("%s %s: %v", service, f.Template, err)
	}
	return out
}

func noSecrets(t *testing.T, public []byte, secrets map[string]string) {
	t.Helper()
	for name, value := range secrets {
		if bytes.Contains(public, []byte(value)) {
			t.Errorf("the public rendering contains secret %s:\n%s", name, public)
		}
	}
}

// read returns a key's value as oslo.config reads it, without a pair of quotes.
func read(f *ini.File, section, key string) string {
	for _, s := range f.Sections {
		for _, k := range s.Keys {
			if s.Name != section || k.Name != key {
				continue
			}
			v := k.Values[0]
			if n := len(v); n > 1 && v[0] == v[n-1] && (v[0] == '"' || v[0] == '\'') {
				return v[1 : n-1]
			}
			return v
		}
	}
	return ""
}
