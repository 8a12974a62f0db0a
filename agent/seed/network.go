package seed

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// physical is an interface in NoCloud's network-config.
type physical struct {
	Type     string   `yaml:"type"`
	Name     string   `yaml:"name"`
	MAC      string   `yaml:"mac_address,omitempty"`
	MTU      int      `yaml:"mtu,omitempty"`
	AcceptRA *bool    `yaml:"accept-ra,omitempty"`
	Subnets  []subnet `yaml:"subnets"`
}

type subnet struct {
	Type    string    `yaml:"type"`
	Address string    `yaml:"address,omitempty"`
	Gateway string    `yaml:"gateway,omitempty"`
	Servers []string  `yaml:"dns_nameservers,omitempty,flow"`
	Search  []string  `yaml:"dns_search,omitempty,flow"`
	Routes  []toRoute `yaml:"routes,omitempty"`
}

type toRoute struct {
	Destination string `yaml:"destination"`
	Gateway     string `yaml:"gateway"`
}

// networkConfig returns NoCloud's network-config, version 1 (doc/rtd/reference/
// network-config-format-v1.rst). From version 2, cloud-init 22.4 writes ::/64 for a
// route to ::/0, and a line with nameservers that ifupdown rejects.
func (m *Machine) networkConfig() any {
	var all []physical
	for _, n := range m.Interfaces {
		p := physical{Type: "physical", Name: n.Name, MAC: n.MAC, MTU: n.MTU}
		for _, a := range n.Addresses {
			p.Subnets = append(p.Subnets, n.subnet(netip.MustParsePrefix(a), len(p.Subnets)))
		}
		if n.static(false) || n.DHCP6 { // as cloud-init does with a config drive
			p.AcceptRA = &n.DHCP6
		}
		if n.DHCP4 {
			p.Subnets = append(p.Subnets, subnet{Type: "dhcp4"})
		}
		if n.DHCP6 {
			p.Subnets = append(p.Subnets, subnet{Type: "dhcp6"})
		}
		p.Subnets[0].Servers, p.Subnets[0].Search = m.DNS.Servers, m.DNS.Search
		all = append(all, p)
	}
	return struct {
		Version int        `yaml:"version"`
		Config  []physical `yaml:"config"`
	}{1, all}
}

// subnet returns the interface's static address at an index. The first address of
// IPv4, and of IPv6, has the gateway and routes.
func (n Interface) subnet(p netip.Prefix, at int) subnet {
	four := p.Addr().Is4()
	s := subnet{Type: "static6", Address: p.String()}
	if four {
		s.Type = "static"
	}
	if !n.first(at) {
		return s
	}
	for _, g := range n.Gateways {
		if netip.MustParseAddr(g).Is4() == four {
			s.Gateway = g
		}
	}
	for _, r := range n.Routes {
		if netip.MustParseAddr(r.Via).Is4() == four {
			s.Routes = append(s.Routes, toRoute{r.To, r.Via})
		}
	}
	return s
}

// static reports whether the interface has a static IPv4 or IPv6 address.
func (n Interface) static(four bool) bool {
	return slices.ContainsFunc(n.Addresses, func(s string) bool { return isFour(s) == four })
}

// first reports whether an address is the first of IPv4 or of IPv6.
func (n Interface) first(at int) bool {
	return slices.IndexFunc(n.Addresses, func(s string) bool { return isFour(s) == isFour(n.Addresses[at]) }) == at
}

func isFour(prefix string) bool { return netip.MustParsePrefix(prefix).Addr().Is4() }

// networkData returns a config drive's network_data.json, as Nova writes it (nova/
// virt/netutils.py). It adds what cloud-init reads too: a link's name, and a
// network's dns_nameservers and dns_search. The name servers are also among the
// services, for other readers; cloud-init ignores these for netplan.
func (m *Machine) networkData() any {
	links, networks, services := []any{}, []any{}, []any{}
	for _, n := range m.Interfaces {
		link := map[string]any{"id": n.Name, "name": n.Name, "type": "phy"}
		if n.MAC != "" {
			link["ethernet_mac_address"] = n.MAC
		}
		if n.MTU != 0 {
			link["mtu"] = n.MTU
		}
		links = append(links, link)
		for i, network := range n.networks() {
			network["id"] = fmt.Sprintf("network%d", len(networks))
			network["link"] = n.Name
			if i == 0 && len(m.DNS.Servers) > 0 {
				network["dns_nameservers"] = m.DNS.Servers
			}
			if i == 0 && len(m.DNS.Search) > 0 {
				network["dns_search"] = m.DNS.Search
			}
			networks = append(networks, network)
		}
	}
	for _, s := range m.DNS.Servers {
		services = append(services, map[string]string{"type": "dns", "address": s})
	}
	return map[string]any{"links": links, "networks": networks, "services": services}
}

// networks returns an interface's addresses, each with the routes of its network.
// DHCP comes last, which makes cloud-init accept router advertisements.
func (n Interface) networks() (all []map[string]any) {
	for i, s := range n.Addresses {
		p := netip.MustParsePrefix(s)
		network := map[string]any{"type": "ipv6", "ip_address": p.Addr().String(), "netmask": mask(p), "routes": []any{}}
		if isFour(s) {
			network["type"] = "ipv4"
		}
		if n.first(i) {
			network["routes"] = n.routes(isFour(s))
		}
		all = append(all, network)
	}
	if n.DHCP4 {
		all = append(all, map[string]any{"type": "ipv4_dhcp"})
	}
	if n.DHCP6 {
		all = append(all, map[string]any{"type": "ipv6_dhcp"})
	}
	return all
}

func (n Interface) routes(four bool) []any {
	all := []any{}
	add := func(to netip.Prefix, via string) {
		if to.Addr().Is4() == four {
			all = append(all, map[string]string{"network": to.Addr().String(), "netmask": mask(to), "gateway": via})
		}
	}
	for _, g := range n.Gateways {
		everywhere := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		if netip.MustParseAddr(g).Is4() {
			everywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		}
		add(everywhere, g)
	}
	for _, r := range n.Routes {
		add(netip.MustParsePrefix(r.To), r.Via)
	}
	return all
}

// mask returns a prefix length as a mask, such as 255.255.255.0.
func mask(p netip.Prefix) string {
	return net.IP(net.CIDRMask(p.Bits(), p.Addr().BitLen())).String()
}
