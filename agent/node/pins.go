package node

import (
	"fmt"
	"strconv"

	"github.com/kollet/kollet/containers"
)

// Pins are the containers, images and generations that guests still need: a
// guest runs from the root file system of the container that started it.
type Pins map[string]bool

// Pins finds what the node's guests still need.
func (n *Node) Pins() (Pins, error) {
	guests, err := n.Guests()
	if err != nil {
		return nil, err
	}
	p := Pins{}
	for _, g := range guests {
		p[pinKey(g.Service, g.Generation)] = true
		p[strconv.Itoa(g.Generation)] = true
	}
	return p, nil
}

func pinKey(service string, generation int) string { return fmt.Sprintf("%s %d", service, generation) }

// Generation reports whether a guest needs a generation's directory.
func (p Pins) Generation(number int) bool { return p[strconv.Itoa(number)] }

// Container reports whether a guest runs from a container.
func (p Pins) Container(c containers.Container) bool {
	return p[c.Spec.Labels[LabelService]+" "+c.Spec.Labels[LabelGeneration]]
}
