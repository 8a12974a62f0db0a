package node

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/configs/kolla"
	"github.com/kollet/kollet/containers"
)

// Labels that kollet's containers carry.
const (
	LabelNode       = "org.kollet.node"       // state directory of the node it belongs to
	LabelService    = "org.kollet.service"    // its service
	LabelGeneration = "org.kollet.generation" // the generation it was created for
)

// Labels select all containers of this node or, if a service is named, those of
// one generation of that service.
func (n *Node) Labels(service string, number int) map[string]string {
	l := map[string]string{LabelNode: n.State()}
	if service != "" {
		l[LabelService] = service
		l[LabelGeneration] = fmt.Sprint(number)
	}
	return l
}

// mostGenerations is more than any node gets to.
const mostGenerations = 999_999_999

// GenerationOf returns the generation that a container was created for, by its label; 0 if
// that is none.
func GenerationOf(c containers.Container) int {
	number, err := strconv.Atoi(c.Spec.Labels[LabelGeneration])
	if err != nil || number < 0 || number > mostGenerations {
		return 0
	}
	return number
}

// StagedName is the name of a service's container until its generation is
// committed, and again once it has been replaced.
func StagedName(service string, generation int) string {
	return fmt.Sprintf("%s-g%d", service, generation)
}

// StartName is the name of kollet-start in a generation's directory: each
// generation keeps the one that its containers start with.
const StartName = "kollet-start"

// ContainerSpec returns the spec of a service's staged container: its own, with
// kollet-start as the entrypoint, at the gate of the given generation.
func (n *Node) ContainerSpec(s generation.Service, number int) containers.Spec {
	spec := s.Spec
	spec.Name = StagedName(s.Name, number)
	spec.Image = s.Image.Reference()
	spec.Labels = n.Labels(s.Name, number)
	spec.User = "0:0" // kollet-start needs root to apply files, and then becomes the user
	spec.Restart = containers.RestartNo
	spec.StopSignal = s.StopSignal
	spec.Entrypoint = []string{gate.Start, gate.FlagUser + s.User}
	for _, word := range s.Warmup {
		spec.Entrypoint = append(spec.Entrypoint, gate.FlagWarmup+word)
	}
	if s.Preload != nil && s.Preload.Python {
		spec.Entrypoint = append(spec.Entrypoint, gate.FlagPreload)
		for _, module := range s.Preload.Modules {
			spec.Entrypoint = append(spec.Entrypoint, gate.FlagModule+module)
		}
	}
	spec.Entrypoint = append(spec.Entrypoint, "--")
	spec.Command = s.Argv
	spec.Env = map[string]string{ServiceVariable: s.Name, gate.Strategy: gate.StrategyOnce}
	maps.Copy(spec.Env, s.Spec.Env)
	spec.Mounts = append(slices.Clone(s.Spec.Mounts), n.OwnMounts(s.Name, number)...)
	return spec.Canonical()
}

// OwnMounts returns what kollet mounts into each container of a service beside its volumes.
func (n *Node) OwnMounts(service string, number int) []containers.Mount {
	store := n.Store()
	return []containers.Mount{
		{Type: containers.Bind, Source: filepath.Join(store.Path(number), StartName), Target: gate.Start, ReadOnly: true},
		{Type: containers.Bind, Source: store.Gate(number, service), Target: gate.Dir},
		{Type: containers.Bind, Source: store.Config(number, service), Target: gate.Config, ReadOnly: true},
	}
}

// KollaStart is the command of Kolla's images: it applies config.json and then
// runs the command named there (kolla: docker/base/start.sh).
const KollaStart = "kolla_start"

// ConfigName is where Kolla's contract expects the description of what to
// copy where (kolla: docker/base/set_configs.py).
const ConfigName = "config.json"

// literal writes a name as a pattern that matches nothing else, as Python's glob.escape
// does: sources are patterns.
var literal = strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]")

// KollaConfig tells kollet-start, and the start script of Kolla's images, what to
// apply.
func KollaConfig(s generation.Service) ([]byte, error) {
	if len(s.Command) == 0 && len(s.Argv) > 0 && s.Argv[len(s.Argv)-1] == KollaStart {
		return nil, fmt.Errorf("its image starts with %s, which without a command runs itself forever; set services.%s.command", KollaStart, s.Name)
	}
	c := kolla.Config{Command: strings.Join(s.Argv, " ")}
	if len(s.Command) > 0 {
		var err error
		if c.Command, err = kolla.Command(s.Command); err != nil {
			return nil, err
		}
	}
	for _, f := range s.Files {
		if f.Part {
			continue // it is copied with its directory
		}
		copied := kolla.ConfigFile{Source: gate.Config + "/" + literal.Replace(f.Name), Dest: f.Dest, Merge: f.Merge, PreserveProperties: f.Preserve}
		if !f.Preserve {
			copied.Owner, copied.Perm = f.Owner, f.Perm
		}
		c.ConfigFiles = append(c.ConfigFiles, copied)
	}
	for _, p := range s.Permissions {
		if dir, ok := strings.CutSuffix(p.Path, "/"); ok {
			c.Directories = append(c.Directories, kolla.Directory{Path: dir, Owner: p.Owner, Perm: p.Perm})
			continue
		}
		c.Permissions = append(c.Permissions, kolla.Permission{Path: p.Path, Owner: p.Owner, Perm: p.Perm, Recurse: p.Recurse, Exclude: p.Exclude})
	}
	return kolla.Marshal(c)
}
