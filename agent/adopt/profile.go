package adopt

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
)

// networks are those of the compute profile.
var networks = []string{"linuxbridge", "openvswitch", "ovn"}

// profiled returns what the compute profile knows of services, by name.
func profiled() (map[string]nodefile.Service, error) {
	known := map[string]nodefile.Service{}
	for _, network := range networks {
		file := fmt.Sprintf("images: {tag: none}\nnetwork: %s\nvars: {rabbit_host: none, auth_url: none}\n", network)
		n, err := nodefile.Parse("profile", []byte(file), configs.Profile, nodefile.Change{})
		if err != nil {
			return nil, fmt.Errorf("read the compute profile: %w", err)
		}
		maps.Copy(known, n.Services)
	}
	return known, nil
}

// like adds what kolla-ansible does not say of a service, and the compute profile does: how to ask
// it for its guests, and in which order and with what it is replaced.
func like(services []translated, known map[string]nodefile.Service) {
	there := func(name string) bool {
		return slices.ContainsFunc(services, func(t translated) bool { return t.name == name })
	}
	grouped := map[string]int{}
	for _, t := range services {
		grouped[known[t.name].Group]++
	}
	for i := range services {
		s, as := &services[i].service, known[services[i].name]
		for _, name := range as.DependsOn {
			if there(name) {
				s.DependsOn = append(s.DependsOn, name)
			}
		}
		s.ReplaceWithDependencies = as.ReplaceWithDependencies && len(s.DependsOn) > 0
		if grouped[as.Group] > 1 {
			s.Group = as.Group
		}
		s.ListedAs = as.ListedAs
		if as.Guests != nil {
			s.Guests = &nodefile.Guests{List: as.Guests.List, Version: as.Guests.Version, Jobs: as.Guests.Jobs}
		}
	}
}
