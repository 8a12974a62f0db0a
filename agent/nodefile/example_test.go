package nodefile_test

import (
	"fmt"

	"github.com/kollet/kollet/agent/nodefile"
)

// builtIn is what configs.Profile is in kollet.
func builtIn(string) ([]byte, error) {
	return []byte(`
networks: {linuxbridge: []}
services:
  nova-libvirt: {image: nova-libvirt, privileged: true}
  nova-compute: {image: nova-compute, depends_on: [nova-libvirt]}
`), nil
}

// A node file is merged with its profile.
func ExampleParse() {
	node, err := nodefile.Parse("node.yaml", []byte(`
images: {registry: registry.example.com:5000/kolla, tag: "26.2.2"}
services:
  nova-compute: {image: "nova-compute:26.2.2-hotfix"}
`), builtIn, nodefile.Change{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range node.Order() {
		fmt.Println(name, node.Services[name].Image)
	}
	// Output:
	// nova-libvirt registry.example.com:5000/kolla/nova-libvirt:26.2.2
	// nova-compute registry.example.com:5000/kolla/nova-compute:26.2.2-hotfix
}

// All problems are reported at once.
func ExampleParse_problems() {
	_, err := nodefile.Parse("node.yaml", []byte(`
services:
  nova-compute:
    imagee: nova-compute:26.2.2
    stop_grace_period: 60
`), builtIn, nodefile.Change{})
	fmt.Println(err)
	// Output:
	// node.yaml:4:5: services.nova-compute.imagee: unknown key; did you mean image?
	// node.yaml:5:24: services.nova-compute.stop_grace_period: expected a duration with its unit, such as 2s or 1m30s, got "60"
}
