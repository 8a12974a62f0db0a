package target

import (
	"fmt"
	"path"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/report"
)

// Explained says where the content of a service's config file comes from.
type Explained struct {
	Service string `json:"service"`
	Path    string `json:"path"` // in the container
	configs.Explanation
}

// Explain explains the config files that have a path in a container, or a last part of one.
func Explain(n *node.Node, opts Options, file string) ([]Explained, error) {
	opts.explain = file
	t, err := Read(n, opts, "render")
	if err != nil {
		return nil, err
	}
	if len(t.explained) > 0 {
		return t.explained, nil
	}
	var names []string
	for _, s := range t.Services {
		for _, f := range s.Files {
			names = append(names, path.Base(f.Dest), f.Dest)
		}
	}
	return nil, node.BadInput{Err: fmt.Errorf("no service has a config file %s%s", file, report.DidYouMean(file, names))}
}
