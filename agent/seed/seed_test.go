package seed_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/seed"
	"github.com/kollet/kollet/test/needs"
)

const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBXBzdl5f2UaGPSSlc2Y6WLuIWBHbgFhZxPYOlylTd1+ operator"

const full = `hostname: cmp1.example.com
instance_id: cmp1-1
ssh_keys: [` + key + `]
root_password_hash: $6$salt$hash
timezone: Europe/Berlin
dns: {servers: [10.0.0.2, "fd00::2"], search: [example.com]}
interfaces:
  - name: ens3
    mac: 52-54-00-12-34-AB
    addresses: [10.0.0.21/24, 10.0.1.21/24, "fd00::21/64"]
    gateways: [10.0.0.1, "fe80::1"]
    routes: [{to: 10.1.0.0/16, via: 10.0.0.254}, {to: "fd01::/48", via: "fd00::fe"}]
    mtu: 9000
  - {name: ens4, dhcp4: true, dhcp6: true}
  - {name: ens5, addresses: [192.0.2.1/31]}
files:
  - {path: /etc/motd, content: "a compute node\n", owner: nova, perm: "0600"}
  - {path: /etc/site, source: site}
user_data: user-data
vendor_data: vendor
`

// describe writes a description and the files that it names, and returns its path.
func describe(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"seed.yaml": text, "site": "a site\n", "user-data": "#cloud-config\npackages: [a]\nwrite_files: [{path: /x, content: x}]\n",
		"vendor": "#cloud-config\npackages: [v]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "seed.yaml")
}

func made(t *testing.T, text string, format seed.Format) *seed.Seed {
	t.Helper()
	m, err := seed.Read(describe(t, text), seed.Change{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := seed.Make(m, format)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// found is what cloud-init reads; see testdata/read.py.
type found struct {
	ID, Host, User, Vendor string
	Keys, Network          []string
}

func cloudInit(t *testing.T, s *seed.Seed) found {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "seed")
	if err := s.WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/bin/python3", "testdata/read.py", string(s.Format), dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cloud-init (make deps installs it): %v\n%s", err, &stderr)
	}
	var f found
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return f
}

// cloud-init reads the same from both formats, and it matches the description.
func TestCloudInitReadsSeeds(t *testing.T) {
	network := []string{
		"ens3 mac 52:54:00:12:34:ab mtu 9000 accept-ra False",
		"ens3 static 10.0.0.21/24", "ens3 route 0.0.0.0/0 via 10.0.0.1", "ens3 route 10.1.0.0/16 via 10.0.0.254",
		"ens3 dns_nameservers 10.0.0.2 fd00::2", "ens3 dns_search example.com",
		"ens3 static 10.0.1.21/24",
		"ens3 static6 fd00::21/64", "ens3 route ::/0 via fe80::1", "ens3 route fd01::/48 via fd00::fe",
		"ens4 mac None mtu None accept-ra True", "ens4 dhcp4 ", "ens4 dns_nameservers 10.0.0.2 fd00::2", "ens4 dns_search example.com", "ens4 dhcp6 ",
		"ens5 mac None mtu None accept-ra None", "ens5 static 192.0.2.1/31", "ens5 dns_nameservers 10.0.0.2 fd00::2", "ens5 dns_search example.com",
	}
	for _, format := range []seed.Format{seed.NoCloud, seed.ConfigDrive} {
		t.Run(string(format), func(t *testing.T) {
			got := cloudInit(t, made(t, full, format))
			if got.ID != "cmp1-1" || got.Host != "cmp1.example.com" || !slices.Equal(got.Keys, []string{key}) || got.Vendor != "#cloud-config\npackages: [v]\n" {
				t.Errorf("got %+v", got)
			}
			if !slices.Equal(got.Network, network) {
				t.Errorf("network:\n%s\nwant:\n%s", strings.Join(got.Network, "\n"), strings.Join(network, "\n"))
			}
			for _, want := range []string{"timezone: Europe/Berlin", "password: $6$salt$hash", "path: /etc/motd", "owner: nova:nova", "a site", "packages: [a]", "Merge-Type: list(append)"} {
				if !strings.Contains(got.User, want) {
					t.Errorf("no %q in the user-data:\n%s", want, got.User)
				}
			}
			least := cloudInit(t, made(t, "hostname: a\n", format))
			if least.ID != "iid-a" || least.User != "#cloud-config\n{}\n" || len(least.Network)+len(least.Keys) > 0 {
				t.Errorf("from the least description: %+v", least)
			}
		})
	}
}

// The node's network files contain the default routes, for every way in which an
// image configures its network.
func TestCloudInitRendersTheNetwork(t *testing.T) {
	needs.Root(t)
	for _, c := range []struct{ renderer, four, six string }{
		{"eni", "10.0.0.1", "fe80::1"},
		{"netplan", "10.0.0.1", "fe80::1"},
		{"networkd", "Gateway=10.0.0.1", "Gateway=fe80::1"},
	} {
		for format, file := range map[seed.Format]string{seed.NoCloud: "network-config", seed.ConfigDrive: "openstack/latest/network_data.json"} {
			dir, kind := t.TempDir(), "yaml"
			if format == seed.ConfigDrive {
				kind = "network_data.json"
			}
			if err := os.WriteFile(dir+"/in", made(t, full, format).Files[file], 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("cloud-init", "devel", "net-convert", "--network-data", dir+"/in", "--kind", kind, "--directory", dir+"/out",
				"--distro", "debian", "--output-kind", c.renderer, "--mac", "ens3,52:54:00:12:34:ab").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var all bytes.Buffer
			err = filepath.WalkDir(dir+"/out", func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					data, err := os.ReadFile(path)
					all.Write(data)
					return err
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			text := all.String()
			for _, want := range []string{"10.0.0.21/24", "fd00::21/64", "10.0.0.2", "example.com", "9000", c.four, c.six} {
				if !strings.Contains(text, want) {
					t.Errorf("%s, %s: no %s in\n%s", c.renderer, format, want, text)
				}
			}
			if strings.Contains(text, " ::/64") || strings.Contains(text, "=::/64") || strings.Contains(text, "{'") {
				t.Errorf("%s, %s: cloud-init's mistakes in\n%s", c.renderer, format, text)
			}
		}
	}
}

func TestChange(t *testing.T) {
	description := describe(t, "hostname: a\nuser_data: gone\n")
	dir := filepath.Dir(description)
	if err := os.WriteFile(dir+"/keys", []byte("# mine\n"+key+"\n\n"+key+"2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := seed.Read(description, seed.Change{Hostname: "b", SSHKeys: []string{dir + "/keys"}, UserData: dir + "/user-data"})
	if err != nil {
		t.Fatal(err)
	}
	if m.Hostname != "b" || m.InstanceID != "iid-b" || len(m.SSHKeys) != 2 || m.UserData != dir+"/user-data" {
		t.Errorf("got %+v", m)
	}
	if m, err = seed.Read("", seed.Change{Hostname: "c", InstanceID: "x"}); err != nil || m.Hostname != "c" || m.InstanceID != "x" {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err = seed.Read("", seed.Change{}); err == nil || err.Error() != "hostname: the machine needs a host name" {
		t.Errorf("got %v", err)
	}
}
