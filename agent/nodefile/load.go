package nodefile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/configs/report"
)

// profile is the content of a built-in profile: the services of a node, which of them
// belong to which network or are switched on by a variable, and the variables.
type profile struct {
	Vars     map[string]any      `yaml:"vars"`
	OneOf    map[string][]string `yaml:"one_of"`  // variables with a fixed set of values
	SomeOf   map[string][]string `yaml:"some_of"` // those whose value is a list of them
	Networks map[string][]string `yaml:"networks"`
	Switches map[string]string   `yaml:"switches"` // services that a node only has if the variable is true
	Services map[string]Service  `yaml:"services"`
}

// Profiles returns the content of a built-in profile.
type Profiles func(name string) ([]byte, error)

// Load reads the node file at path. Errors show path as it is given.
func Load(path string, profiles Profiles, change Change) (*Node, error) {
	data, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, report.Problem{Place: report.Place{File: path}, Text: "no node file; write one (see `kollet help node-file`), or give its path with --node-file"}
	}
	if err != nil {
		return nil, fmt.Errorf("read the node file: %w", err)
	}
	return Parse(path, data, profiles, change)
}

// Parse reads a node file and merges it with its profile. Errors call the file
// name. The error has every problem of both files.
func Parse(name string, data []byte, profiles Profiles, change Change) (*Node, error) {
	var problems report.Problems
	own := parse(name, data, Node{}, &problems)
	if own == nil {
		return nil, problems.Err()
	}
	node := defaults()
	if err := own.root.Decode(node); err != nil {
		return nil, syntax(name, err)
	}
	node.own = own
	node.OwnVars = slices.Sorted(maps.Keys(node.Vars))
	if err := node.addProfile(profiles, &problems); err != nil {
		return nil, err
	}
	node.apply(change, &problems)
	node.validateSettings(&problems)
	node.setDefaults()
	node.validate(&problems)
	return node, problems.Err()
}

func defaults() *Node {
	return &Node{Profile: "compute", Engine: "docker", Network: "linuxbridge", KeepGenerations: 3, Images: Images{PullPolicy: "missing"}}
}

// addProfile merges the node file with its profile.
func (n *Node) addProfile(profiles Profiles, problems *report.Problems) error {
	var p profile
	if n.Profile != "none" {
		name := "profile " + n.Profile
		data, err := profiles(n.Profile)
		if err != nil {
			problems.Addf(n.Place("profile"), "profile", "%v", err)
			return problems.Err()
		}
		if n.base = parse(name, data, p, problems); n.base == nil {
			return problems.Err()
		}
		if err := n.base.root.Decode(&p); err != nil {
			return syntax(name, err)
		}
		n.dropNetworks(&p, problems)
		n.dropSwitchedOff(&p, problems)
	}
	n.KnownVars = slices.Sorted(maps.Keys(p.Vars))
	n.checkVars(p, problems)
	vars := maps.Clone(p.Vars)
	if vars == nil {
		vars = map[string]any{}
	}
	maps.Copy(vars, n.Vars)
	n.Vars = vars
	return n.mergeServices(p.Services, problems)
}

// dropNetworks removes the services of the networks that were not chosen.
func (n *Node) dropNetworks(p *profile, problems *report.Problems) {
	chosen, ok := p.Networks[n.Network]
	if !ok {
		names := slices.Sorted(maps.Keys(p.Networks))
		problems.Addf(n.Place("network"), "network", "profile %s has no network %q; expected one of %s", n.Profile, n.Network, strings.Join(names, ", "))
		return
	}
	for _, services := range p.Networks {
		for _, service := range services {
			if !slices.Contains(chosen, service) {
				delete(p.Services, service)
			}
		}
	}
}

// dropSwitchedOff removes the services that are switched off. The node file may have a
// service of its own with such a name, which then has an image.
func (n *Node) dropSwitchedOff(p *profile, problems *report.Problems) {
	for _, service := range slices.Sorted(maps.Keys(p.Switches)) {
		variable := p.Switches[service]
		value := n.Vars[variable]
		if value == nil {
			value = p.Vars[variable]
		}
		if value != false {
			continue // checkVars reports what is neither true nor false
		}
		delete(p.Services, service)
		if own, there := n.Services[service]; there && own.Image == "" && !own.Disabled {
			key := "services." + service
			problems.Addf(n.Place(key), key, "this service is switched off; set vars.%s: true, or remove its settings", variable)
			delete(n.Services, service)
		}
	}
}

// mergeServices decodes the node file's services over the profile's. Keys that
// the node file does not set keep the profile's value. Lists whose entries have
// an identity are merged by it, others are replaced.
func (n *Node) mergeServices(base map[string]Service, problems *report.Problems) error {
	own := n.Services
	n.Services = map[string]Service{}
	for name, service := range base {
		setOrigins(&service, n.base, "services."+name)
		n.Services[name] = service
	}
	if own == nil {
		return nil
	}
	nodes := child(n.own.root, "services")
	for name := range own {
		key := "services." + name
		service := n.Services[name]
		mounts, config, ulimits := service.Volumes, service.Config, service.Ulimits
		service.Volumes, service.Config, service.Ulimits = nil, nil, nil
		service.Environment = maps.Clone(service.Environment)
		from := child(nodes, name)
		if from.Tag != "!!null" {
			if err := from.Decode(&service); err != nil {
				return syntax(n.own.name, err)
			}
		}
		setOrigins(&service, n.own, key)
		service.Volumes = mergeBy(mounts, service.Volumes, problems, func(m Volume) (string, Origin) { return path.Clean(m.Target), m.Origin })
		service.Config = mergeBy(config, service.Config, problems, func(f ConfigFile) (string, Origin) { return f.identity(), f.Origin })
		service.Ulimits = mergeBy(ulimits, service.Ulimits, problems, func(u Ulimit) (string, Origin) { return u.Name, u.Origin })
		n.Services[name] = service
	}
	return nil
}

// setOrigins sets the origins of the entries of a service's lists. Entries from the
// profile already have theirs and keep it.
func setOrigins(s *Service, d *document, key string) {
	for _, list := range []struct {
		name  string
		value reflect.Value
	}{{"volumes", reflect.ValueOf(s.Volumes)}, {"config", reflect.ValueOf(s.Config)}, {"healthcheck", reflect.ValueOf(s.Healthcheck)}, {"requires", reflect.ValueOf(s.Requires)}, {"ulimits", reflect.ValueOf(s.Ulimits)}} {
		for i := range list.value.Len() {
			item := list.value.Index(i).FieldByName("Origin").Addr().Interface().(*Origin)
			if item.Key != "" {
				continue
			}
			item.Key = fmt.Sprintf("%s.%s[%d]", key, list.name, i)
			item.Place = d.place(item.Key)
		}
	}
}

// mergeBy returns base's entries, each replaced by the entry of over with the same
// identity, and over's other entries. Two entries of over with one identity are
// reported, because one of them would be lost.
func mergeBy[T any](base, over []T, problems *report.Problems, id func(T) (string, Origin)) []T {
	merged := slices.Clone(base)
	seen := map[string]Origin{}
	for _, item := range over {
		name, origin := id(item)
		if first, twice := seen[name]; twice {
			problems.Addf(origin.Place, origin.Key, "%s is set twice in this list, first on line %d; remove one", name, first.Line)
		}
		seen[name] = origin
		at := slices.IndexFunc(merged, func(b T) bool { other, _ := id(b); return other == name })
		if at < 0 {
			merged = append(merged, item)
		} else {
			merged[at] = item
		}
	}
	return merged
}

// child returns the value of a key of a mapping, or null.
func child(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
}

// Place returns the place of a key in the node file, else in the profile, else
// that of its nearest parent.
func (n *Node) Place(key string) report.Place {
	for ; key != ""; key = parentKey(key) {
		for _, d := range []*document{n.own, n.base} {
			if d == nil {
				continue
			}
			if at, ok := d.places[key]; ok {
				return at
			}
		}
	}
	return report.Place{File: n.own.name}
}

// KeepGenerations reads keep_generations from a node file that may have other
// problems.
func KeepGenerations(path string) (int, error) {
	data, err := read(path)
	if err != nil {
		return 0, fmt.Errorf("read the node file: %w", err)
	}
	node := defaults()
	if err := yaml.Unmarshal(data, &struct {
		Keep *int `yaml:"keep_generations"`
	}{&node.KeepGenerations}); err != nil {
		return 0, fmt.Errorf("read keep_generations from %s: %w", path, err)
	}
	if node.KeepGenerations < 1 {
		return 0, fmt.Errorf("read keep_generations from %s: expected 1 or more, got %d", path, node.KeepGenerations)
	}
	return node.KeepGenerations, nil
}

// Engine reads the engine's name from a node file that may have other problems,
// or lack values that flags provide. It returns the default if it cannot be
// read; Load reports why.
func Engine(path string) string {
	node := defaults()
	if data, err := read(path); err == nil {
		_ = yaml.Unmarshal(data, &struct {
			Engine *string `yaml:"engine"`
		}{&node.Engine})
	}
	return node.Engine
}
