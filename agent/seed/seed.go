// Package seed creates cloud-init seeds for machines without a cloud: an ISO image
// or a directory for NoCloud (doc/rtd/reference/datasources/nocloud.rst), or an
// OpenStack config drive, version 2 (configdrive.rst there).
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

// Label returns the volume label by which cloud-init finds a drive.
func (f Format) Label() string {
	if f == ConfigDrive {
		return "config-2"
	}
	return "cidata"
}

// Seed is the files of a seed, by path.
type Seed struct {
	Format Format
	Files  map[string][]byte
}

// Paths returns the sorted paths of the files.
func (s *Seed) Paths() []string { return slices.Sorted(maps.Keys(s.Files)) }

// Make creates a seed for a machine that Read returned.
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

// userData returns the machine's user-data, with a part before it for what
// meta-data cannot contain, so that both formats have the same effect. Vendor-data
// cannot contain it: lists in user-data, such as write_files, would replace it.
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

// noCloud adds NoCloud's files.
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

// configDrive adds a config drive's files, as Nova writes them.
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
