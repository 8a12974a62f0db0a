package seed

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"path/filepath"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/userdata"
	"github.com/kollet/kollet/configs/report"
)

// Machine is the description of a machine.
type Machine struct {
	InstanceID       string      `yaml:"instance_id" doc:"cloud-init runs once for each ID; default: iid- and the host name"`
	Hostname         string      `yaml:"hostname" doc:"short or with the domain"`
	SSHKeys          []string    `yaml:"ssh_keys" doc:"public keys for the image's default user"`
	RootPasswordHash string      `yaml:"root_password_hash" doc:"as mkpasswd -m sha-512 prints it"`
	Timezone         string      `yaml:"timezone" doc:"such as Europe/Berlin"`
	DNS              DNS         `yaml:"dns" doc:"for all interfaces"`
	Interfaces       []Interface `yaml:"interfaces" doc:"default: DHCP on the first interface"`
	Files            []File      `yaml:"files" doc:"files to write on the machine"`
	UserData         string      `yaml:"user_data" doc:"file with user-data, such as that of kollet userdata"`
	VendorData       string      `yaml:"vendor_data" doc:"file with vendor-data"`

	given, vendorData []byte
	inject            []userdata.File
}

// DNS is the configuration of name resolution.
type DNS struct {
	Servers []string `yaml:"servers" doc:"addresses"`
	Search  []string `yaml:"search" doc:"domains"`
}

// Interface is one network interface.
type Interface struct {
	Name      string   `yaml:"name" doc:"its name on the machine"`
	MAC       string   `yaml:"mac" doc:"the interface with this address gets the name"`
	DHCP4     bool     `yaml:"dhcp4" doc:"IPv4 by DHCP"`
	DHCP6     bool     `yaml:"dhcp6" doc:"IPv6 by DHCP"`
	Addresses []string `yaml:"addresses" doc:"IPv4 and IPv6, such as 10.0.0.21/24"`
	Gateways  []string `yaml:"gateways" doc:"of the default routes, one for IPv4 and one for IPv6"`
	Routes    []Route  `yaml:"routes" doc:"other routes"`
	MTU       int      `yaml:"mtu" doc:"default: the kernel's"`
}

// Route is a route other than the default one.
type Route struct {
	To  string `yaml:"to" doc:"network, such as 10.1.0.0/16"`
	Via string `yaml:"via" doc:"gateway"`
}

// File is a file to write on the machine, with Content or Source.
type File struct {
	Path    string `yaml:"path" doc:"absolute"`
	Content string `yaml:"content" doc:"text"`
	Source  string `yaml:"source" doc:"local file"`
	Owner   string `yaml:"owner" doc:"user, or user:group; default root:root"`
	Perm    string `yaml:"perm" doc:"default \"0644\""`
}

// Change overrides parts of a description, or replaces it.
type Change struct {
	InstanceID, Hostname string
	SSHKeys              []string // files of public keys, as in authorized_keys
	UserData             string   // a file
}

// Read reads a description. name may be empty if the Change is enough. The error
// contains every problem.
func Read(name string, c Change) (*Machine, error) {
	var problems report.Problems
	m := &Machine{}
	place := func(string) report.Place { return report.Place{File: name} }
	if name != "" {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if place = nodefile.Decode(name, data, m, &problems); problems.Len() > 0 {
			return nil, problems.Err()
		}
	}
	ch := checker{Machine: m, place: place, problems: &problems, dir: filepath.Dir(name)}
	ch.apply(c)
	ch.identity()
	ch.network()
	ch.files()
	return m, problems.Err()
}

// checker finds the problems of a description.
type checker struct {
	*Machine
	place    func(key string) report.Place
	problems *report.Problems
	dir      string // of the description; paths in it are relative to it
}

func (c checker) bad(key, format string, args ...any) {
	c.problems.Addf(c.place(key), key, format, args...)
}

// apply applies a Change to the description and reads the files that it names.
func (c checker) apply(change Change) {
	if change.Hostname != "" {
		c.Hostname = change.Hostname
	}
	if change.InstanceID != "" {
		c.InstanceID = change.InstanceID
	}
	if c.InstanceID == "" {
		c.InstanceID = "iid-" + c.Hostname
	}
	for _, file := range change.SSHKeys {
		data, err := os.ReadFile(file)
		c.problems.Add(err)
		for line := range bytes.Lines(data) {
			if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
				c.SSHKeys = append(c.SSHKeys, string(line))
			}
		}
	}
	if c.UserData != "" && change.UserData == "" {
		c.UserData = c.resolve(c.UserData)
		c.given = c.read("user_data", c.UserData)
	}
	if change.UserData != "" {
		c.UserData = change.UserData
		var err error
		c.given, err = os.ReadFile(change.UserData)
		c.problems.Add(err)
	}
	if c.VendorData != "" {
		c.VendorData = c.resolve(c.VendorData)
		c.vendorData = c.read("vendor_data", c.VendorData)
	}
}

func (c checker) resolve(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(c.dir, file)
}

func (c checker) read(key, file string) []byte {
	data, err := os.ReadFile(file)
	if err != nil {
		c.bad(key, "cannot be read: %w", err)
		return nil
	}
	if data == nil {
		data = []byte{}
	}
	return data
}

// files reads the files to inject.
func (c checker) files() {
	seen := map[string]bool{}
	for i, f := range c.Files {
		key := item("files", i)
		out := userdata.File{Path: f.Path, Owner: "root:root", Perm: 0o644, Data: []byte(f.Content)}
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" {
			c.bad(key+".path", "expected the absolute path of a file, got %q", f.Path)
		}
		if seen[f.Path] {
			c.bad(key+".path", "%s is given twice; drop one", f.Path)
		}
		seen[f.Path] = true
		if f.Content != "" && f.Source != "" {
			c.bad(key, "expected content or source, not both")
		} else if f.Source != "" {
			out.Data = c.read(key+".source", c.resolve(f.Source))
		}
		var err error
		if f.Owner != "" {
			if out.Owner, err = userdata.Owner(f.Owner); err != nil {
				c.bad(key+".owner", "%v", err)
			}
		}
		if f.Perm != "" {
			if out.Perm, err = userdata.Perm(f.Perm); err != nil {
				c.bad(key+".perm", "%v", err)
			}
		}
		c.inject = append(c.inject, out)
	}
}

func asJSON(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // maps and strings
	}
	return append(data, '\n')
}
