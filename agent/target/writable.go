package target

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/wary"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/containers"
)

// dockerDir has Docker's volumes, unless it keeps its data elsewhere.
const dockerDir = "/var/lib/docker"

// writableDirs returns the directories of the host to which a container can write: those that
// a service mounts, now or in a generation that is kept, and those of volumes. A link in one
// of them could lead to any file of the host. A privileged service is root on the host and
// needs no link. The records of known generations are not read again.
func writableDirs(n *node.Node, file *nodefile.Node, known ...generation.Generation) wary.Dirs {
	paths := []string{n.State(), filepath.Join(n.Host.Root, dockerDir)}
	add := func(source string) { paths = append(paths, filepath.Join(n.Host.Root, source)) }
	numbers, _ := n.Store().List() // what cannot be read is reported by those who need it
	for _, number := range numbers {
		var g generation.Generation
		if at := slices.IndexFunc(known, func(k generation.Generation) bool { return k.Number == number }); at >= 0 {
			g = known[at]
		} else {
			g, _ = n.Store().Load(number)
		}
		for _, s := range g.Services {
			for _, m := range s.Spec.Mounts {
				if m.Type == containers.Bind && !m.ReadOnly && !s.Spec.Privileged {
					add(m.Source)
				}
			}
		}
	}
	// Secrets and files of the operator are not read yet. No volume may contain a secret.
	expander, err := configs.New(configs.Inputs{Host: n.Name, Vars: file.Vars, Instance: instance(n, wary.DirsOf(paths...))})
	if err != nil {
		return wary.DirsOf(paths...) // it is reported when the files are rendered
	}
	for name, s := range file.Services {
		for _, m := range s.Volumes {
			source, err := expander.Expand(name, m.Key, m.Source)
			if err == nil && filepath.IsAbs(source) && !m.ReadOnly && !s.Privileged {
				add(source)
			}
		}
	}
	return wary.DirsOf(paths...)
}

// remedied adds to an error what to do about a file that cannot be read, unless the error
// says so itself.
func remedied(err error, remedy string) error {
	if _, planted := errors.AsType[*wary.PlantedError](err); planted {
		return err
	}
	return fmt.Errorf("%w; %s", err, remedy)
}
