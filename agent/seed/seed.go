// Package seed makes the drive, or directory, from which cloud-init learns what
// a machine is when no cloud tells it: NoCloud's (doc/rtd/reference/datasources/
// nocloud.rst) or OpenStack's config drive, version 2 (configdrive.rst there).
package seed

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kollet/kollet/agent/userdata"
)

// Format is a kind of seed.
type Format string

// Formats.
const (
	NoCloud     Format = "nocloud"
	ConfigDrive Format = "config-drive"
)

// Label is the name that cloud-init finds a drive by.
func (f Format) Label() string {
	if f == ConfigDrive {
		return "config-2"
	}
	return "cidata"
}

// Seed is a seed's files by their paths.
type Seed struct {
	Format Format
	Files  map[string][]byte
}

// Paths returns the files' paths, in order.
func (s *Seed) Paths() []string { return slices.Sorted(maps.Keys(s.Files)) }

// Make makes a seed of a machine that Read has checked.
func Make(m *Machine, format Format) (*Seed, error) {
	user, err := m.userData()
	if err != nil {
		return nil, err
	}
	if m.vendorData != nil {
		if m.vendorData, err = userdata.Check(m.VendorData, m.vendorData); err != nil {
			return nil, err
		}
	}
	s := &Seed{Format: format, Files: map[string][]byte{}}
	if format == ConfigDrive {
		s.configDrive(m, user)
	} else {
		s.noCloud(m, user)
	}
	return s, nil
}

// userData puts what meta-data cannot say before what the machine is given as
// user-data, so that it works alike from both kinds of drive. Vendor-data is no
// place for it: lists of user-data, such as write_files, take their place.
func (m *Machine) userData() ([]byte, error) {
	c := userdata.Config{Timezone: m.Timezone}
	if m.RootPasswordHash != "" {
		c.Passwords = &userdata.Passwords{Users: []userdata.Password{{Name: "root", Password: m.RootPasswordHash, Type: "hash"}}}
	}
	for _, f := range m.inject {
		c.WriteFiles = append(c.WriteFiles, f.Entry())
	}
	own := c.Timezone != "" || c.Passwords != nil || c.WriteFiles != nil
	switch {
	case own:
		return userdata.Join(c.Part("seed.yaml"), m.UserData, m.given)
	case m.given != nil:
		return userdata.Check(m.UserData, m.given)
	}
	return []byte("#cloud-config\n{}\n"), nil
}

// noCloud writes NoCloud's files.
func (s *Seed) noCloud(m *Machine, user []byte) {
	s.Files["meta-data"] = userdata.YAML(struct {
		ID   string   `yaml:"instance-id"`
		Host string   `yaml:"local-hostname"`
		Keys []string `yaml:"public-keys,omitempty"`
	}{m.InstanceID, m.Hostname, m.SSHKeys})
	s.Files["user-data"] = user
	if len(m.Interfaces) > 0 {
		s.Files["network-config"] = userdata.YAML(m.networkConfig())
	}
	if m.vendorData != nil {
		s.Files["vendor-data"] = m.vendorData
	}
}

// configDrive writes a config drive's files, as Nova does.
func (s *Seed) configDrive(m *Machine, user []byte) {
	keys := map[string]string{}
	for i, key := range m.SSHKeys {
		keys[fmt.Sprintf("key-%d", i)] = key
	}
	vendor := map[string]string{}
	if m.vendorData != nil {
		vendor["cloud-init"] = string(m.vendorData)
	}
	const dir = "openstack/latest/"
	s.Files[dir+"user_data"] = user
	s.Files[dir+"meta_data.json"] = asJSON(map[string]any{
		"uuid": m.InstanceID, "hostname": m.Hostname, "name": m.Hostname, "launch_index": 0, "public_keys": keys,
	})
	s.Files[dir+"vendor_data.json"] = asJSON(vendor)
	if len(m.Interfaces) > 0 {
		s.Files[dir+"network_data.json"] = asJSON(m.networkData())
	}
}
