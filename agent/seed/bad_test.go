package seed_test

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/seed"
)

// Every problem has its place, and all of them are reported together.
func TestBadDescriptions(t *testing.T) {
	const nic = "hostname: a\ninterfaces:\n  - "
	for _, c := range []struct{ text, want string }{
		{"", "seed.yaml: the file is empty"},
		{"hostname: [\n", "seed.yaml:1:1: not valid YAML"},
		{"hostnam: a\n", "seed.yaml:1:1: hostnam: unknown key; did you mean hostname?"},
		{"timezone: UTC\n", "seed.yaml: hostname: the machine needs a host name"},
		{"hostname: a b\n", "seed.yaml:1:1: hostname: expected a host name"},
		{"hostname: -a\n", "seed.yaml:1:1: hostname: expected a host name"},
		{"hostname: a\ninstance_id: a b\n", "seed.yaml:2:1: instance_id: expected letters"},
		{"hostname: a\nssh_keys: [ssh-rsa, " + key + "]\n", "seed.yaml:2:12: ssh_keys[0]: expected a public key"},
		{"hostname: a\nssh_keys: [ssh-rsa AAA]\n", "seed.yaml:2:12: ssh_keys[0]: the key of type ssh-rsa is damaged"},
		{"hostname: a\nssh_keys: [" + strings.Replace(key, "ed25519", "rsa", 1) + "]\n", "seed.yaml:2:12: ssh_keys[0]: the key is not of type ssh-rsa"},
		{"hostname: a\nssh_keys: ['-----BEGIN OPENSSH PRIVATE KEY-----']\n", "seed.yaml:2:12: ssh_keys[0]: this is a private key"},
		{"hostname: a\nroot_password_hash: secret\n", "seed.yaml:2:1: root_password_hash: expected a hash"},
		{"hostname: a\ntimezone: Europe/Berln\n", `seed.yaml:2:1: timezone: there is no time zone "Europe/Berln"`},
		{"hostname: a\ntimezone: ../etc/passwd\n", "seed.yaml:2:1: timezone: there is no time zone"},
		{"hostname: a\ndns: {servers: [10.0.0.1]}\n", "seed.yaml:2:1: dns: needs interfaces"},
		{nic + "{name: a, dhcp4: true}\ndns: {servers: [x]}\n", `seed.yaml:4:17: dns.servers[0]: expected an address, got "x"`},
		{nic + "{name: a, dhcp4: true}\ndns: {search: ['a b']}\n", "seed.yaml:4:16: dns.search[0]: expected a domain"},
		{nic + "{dhcp4: true}\n", "seed.yaml:3:5: interfaces[0].name: expected an interface's name"},
		{nic + "{name: a}\n", "seed.yaml:3:5: interfaces[0]: a has no address"},
		{nic + "{name: a, dhcp4: true}\n  - {name: a, dhcp4: true}\n", "seed.yaml:4:6: interfaces[1].name: two interfaces have the name a"},
		{nic + "{name: a, dhcp4: true, mac: 5}\n", "seed.yaml:3:28: interfaces[0].mac: expected an address such as"},
		{nic + "{name: a, dhcp4: true, mac: '52:54:00:00:00:01'}\n  - {name: b, dhcp4: true, mac: 52-54-00-00-00-01}\n", "seed.yaml:4:28: interfaces[1].mac: two interfaces have the address"},
		{nic + "{name: a, dhcp4: true, mtu: 10}\n", "seed.yaml:3:28: interfaces[0].mtu: expected 576 to 65535"},
		{nic + "{name: a, addresses: [10.0.0.1]}\n", "seed.yaml:3:27: interfaces[0].addresses[0]: expected an address with its prefix length"},
		{nic + "{name: a, addresses: [10.0.0.0/24]}\n", "seed.yaml:3:27: interfaces[0].addresses[0]: 10.0.0.0/24 is the network's own address"},
		{nic + "{name: a, addresses: [10.0.0.2/24], gateways: [10.0.1.1]}\n", "seed.yaml:3:52: interfaces[0].gateways[0]: 10.0.1.1 is not in a network of a"},
		{nic + "{name: a, addresses: [10.0.0.2/24], gateways: ['fe80::1']}\n", "seed.yaml:3:52: interfaces[0].gateways[0]: fe80::1 is not in a network of a"},
		{nic + "{name: a, addresses: ['fd00::2/64'], gateways: ['fe80::1%a']}\n", `seed.yaml:3:53: interfaces[0].gateways[0]: expected an address, got "fe80::1%a"`},
		{nic + "{name: a, addresses: [10.0.0.2/24], gateways: [10.0.0.1, 10.0.0.3]}\n", "seed.yaml:3:62: interfaces[0].gateways[1]: a already has a default route"},
		{nic + "{name: a, addresses: [10.0.0.2/24], routes: [{to: 10.1.0.1/16, via: 10.0.0.1}]}\n", "seed.yaml:3:51: interfaces[0].routes[0].to: expected a network"},
		{nic + "{name: a, addresses: [10.0.0.2/24], routes: [{to: 'fd00::/64', via: 10.0.0.1}]}\n", "seed.yaml:3:50: interfaces[0].routes[0]: fd00::/64 and 10.0.0.1 are not both IPv4"},
		{"hostname: a\nfiles: [{path: motd}]\n", "seed.yaml:2:10: files[0].path: expected the absolute path"},
		{"hostname: a\nfiles: [{path: /a}, {path: /a}]\n", "seed.yaml:2:22: files[1].path: /a is given twice"},
		{"hostname: a\nfiles: [{path: /a, content: x, source: site}]\n", "seed.yaml:2:9: files[0]: expected content or source"},
		{"hostname: a\nfiles: [{path: /a, source: gone}]\n", "seed.yaml:2:20: files[0].source: cannot be read"},
		{"hostname: a\nfiles: [{path: /a, perm: rw}]\n", "seed.yaml:2:20: files[0].perm: expected permissions such as 0600"},
		{"hostname: a\nfiles: [{path: /a, owner: 'a:b:c'}]\n", "seed.yaml:2:20: files[0].owner: expected an owner"},
		{"hostname: a\nuser_data: gone\n", "seed.yaml:2:1: user_data: cannot be read"},
		{"hostname: a\nvendor_data: gone\n", "seed.yaml:2:1: vendor_data: cannot be read"},
	} {
		file := describe(t, c.text)
		_, err := seed.Read(file, seed.Change{})
		if err == nil {
			t.Errorf("%q: no error", c.text)
			continue
		}
		if got := strings.ReplaceAll(err.Error(), filepath.Dir(file)+"/", ""); !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%q:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
	_, err := seed.Read(describe(t, "hostname: '-'\ntimezone: '?'\nuser_data: gone\n"), seed.Change{SSHKeys: []string{"/none"}})
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("not all at once: %v", err)
	}
}

// User-data that cloud-init would reject is not written to a drive.
func TestBadUserData(t *testing.T) {
	for _, content := range []string{"hello\n", "", "#cloud-config\na: [\n"} {
		file := filepath.Join(t.TempDir(), "user-data")
		write(t, file, content)
		m, err := seed.Read("", seed.Change{Hostname: "a", UserData: file})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := seed.Make(m, seed.NoCloud); err == nil || !strings.HasPrefix(err.Error(), file) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// Base64, as Nova's API expects, is decoded for a drive.
func TestUserDataInBase64(t *testing.T) {
	file := filepath.Join(t.TempDir(), "user-data")
	write(t, file, base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n")))
	m, err := seed.Read("", seed.Change{Hostname: "a", UserData: file})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := seed.Make(m, seed.NoCloud); err != nil || string(s.Files["user-data"]) != "#!/bin/sh\n" {
		t.Errorf("got %v, %v", s, err)
	}
}
