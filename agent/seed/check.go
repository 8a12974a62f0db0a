package seed

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"time"
)

var (
	hostName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)
	instance = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)
	hash     = regexp.MustCompile(`^\$[A-Za-z0-9]+\$[^\s:]+$`) // crypt(5)
	nic      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`)
	zone     = regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)
)

func item(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }

// identity checks the settings of the machine as a whole.
func (c checker) identity() {
	switch {
	case c.Hostname == "":
		c.bad("hostname", "the machine needs a host name")
	case !hostName.MatchString(c.Hostname) || len(c.Hostname) > 253:
		c.bad("hostname", "expected a host name of letters, digits and '-', with or without its domain, got %q", c.Hostname)
	case !instance.MatchString(c.InstanceID):
		c.bad("instance_id", "expected letters, digits, '.', '_', ':' and '-', got %q", c.InstanceID)
	}
	for i, key := range c.SSHKeys {
		if err := publicKey(key); err != nil {
			c.bad(item("ssh_keys", i), "%v", err)
		}
	}
	if c.RootPasswordHash != "" && !hash.MatchString(c.RootPasswordHash) {
		c.bad("root_password_hash", "expected a hash such as $6$…; `mkpasswd -m sha-512` prints one")
	}
	if c.Timezone != "" && !knownZone(c.Timezone) {
		c.bad("timezone", "there is no time zone %q; expected one such as Europe/Berlin or UTC", c.Timezone)
	}
}

// knownZone looks a time zone up on this machine, if it has a list of them.
func knownZone(name string) bool {
	if !zone.MatchString(name) {
		return false
	}
	if _, err := os.Stat("/usr/share/zoneinfo"); err != nil {
		return true
	}
	_, err := time.LoadLocation(name)
	return err == nil
}

// publicKey checks a line of authorized_keys: type, key, comment. The key contains
// its type too (RFC 4253, 6.6).
func publicKey(line string) error {
	fields := strings.Fields(line)
	if strings.Contains(line, "PRIVATE KEY") {
		return fmt.Errorf("this is a private key; expected the public key, which ssh-keygen writes to a .pub file")
	}
	if len(fields) < 2 {
		return fmt.Errorf("expected a public key such as ssh-ed25519 AAAA… name, got %q", line)
	}
	data, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(data) < 4 {
		return fmt.Errorf("the key of type %s is damaged; copy the whole line of the .pub file", fields[0])
	}
	size := binary.BigEndian.Uint32(data)
	if int64(size) > int64(len(data)-4) || string(data[4:4+size]) != fields[0] {
		return fmt.Errorf("the key is not of type %s; copy the whole line of the .pub file", fields[0])
	}
	return nil
}

// network checks the network configuration.
func (c checker) network() {
	for i, s := range c.DNS.Servers {
		if a, err := netip.ParseAddr(s); err != nil || a.Zone() != "" {
			c.bad(item("dns.servers", i), "expected an address, got %q", s)
		}
	}
	for i, s := range c.DNS.Search {
		if !hostName.MatchString(s) {
			c.bad(item("dns.search", i), "expected a domain, got %q", s)
		}
	}
	if len(c.Interfaces) == 0 && len(c.DNS.Servers)+len(c.DNS.Search) > 0 {
		c.bad("dns", "needs interfaces, because DHCP sets it otherwise; add interfaces, or remove it")
	}
	names, macs, defaults := map[string]bool{}, map[string]bool{}, map[bool]string{}
	for i := range c.Interfaces {
		n, key := &c.Interfaces[i], item("interfaces", i)
		if !nic.MatchString(n.Name) {
			c.bad(key+".name", "expected an interface's name, such as ens3, got %q", n.Name)
		} else if names[n.Name] {
			c.bad(key+".name", "two interfaces have the name %s", n.Name)
		}
		names[n.Name] = true
		if n.MAC != "" {
			mac, err := net.ParseMAC(n.MAC)
			if err != nil || len(mac) != 6 {
				c.bad(key+".mac", "expected an address such as 52:54:00:12:34:56, got %q", n.MAC)
			} else if n.MAC = mac.String(); macs[n.MAC] {
				c.bad(key+".mac", "two interfaces have the address %s", n.MAC)
			}
			macs[n.MAC] = true
		}
		if n.MTU != 0 && (n.MTU < 576 || n.MTU > 65535) {
			c.bad(key+".mtu", "expected 576 to 65535, got %d", n.MTU)
		}
		if !n.DHCP4 && !n.DHCP6 && len(n.Addresses) == 0 {
			c.bad(key, "%s has no address; add addresses, dhcp4 or dhcp6", n.Name)
		}
		c.addresses(n, key, defaults)
	}
}

// addresses checks the IP configuration of an interface. defaults has the names of
// the interfaces with a default route, with true for IPv4 and false for IPv6.
func (c checker) addresses(n *Interface, key string, defaults map[bool]string) {
	var nets []netip.Prefix
	for i, s := range n.Addresses {
		p, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			c.bad(item(key+".addresses", i), "expected an address with its prefix length, such as 10.0.0.21/24, got %q", s)
			continue
		case p.Addr() == p.Masked().Addr() && p.Bits() < p.Addr().BitLen()-1:
			c.bad(item(key+".addresses", i), "%s is the network's own address", s)
		}
		nets = append(nets, p)
	}
	within := func(key, s string) (netip.Addr, bool) {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			c.bad(key, "expected an address, got %q", s)
			return a, false
		}
		if len(nets) < len(n.Addresses) {
			return a, true // the problem is already reported
		}
		for _, p := range nets {
			if p.Contains(a) || a.IsLinkLocalUnicast() && a.Is4() == p.Addr().Is4() {
				return a, true
			}
		}
		c.bad(key, "%s is not in a network of %s and cannot be reached", s, n.Name)
		return a, false
	}
	for i, s := range n.Gateways {
		at := item(key+".gateways", i)
		a, ok := within(at, s)
		if !ok {
			continue
		}
		if other := defaults[a.Is4()]; other != "" {
			c.bad(at, "%s already has a default route; use routes for this one", other)
		}
		defaults[a.Is4()] = n.Name
	}
	for i, r := range n.Routes {
		at := item(key+".routes", i)
		to, err := netip.ParsePrefix(r.To)
		if err != nil || to != to.Masked() {
			c.bad(at+".to", "expected a network such as 10.1.0.0/16, got %q", r.To)
		}
		if via, ok := within(at+".via", r.Via); ok && err == nil && via.Is4() != to.Addr().Is4() {
			c.bad(at, "%s and %s are not both IPv4 or both IPv6", r.To, r.Via)
		}
	}
}
