package upgrade

import (
	"fmt"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/nodefile"
)

// The steps of an upgrade in which libvirt and nova-compute get new containers.
func Example_steps() {
	services := func(origin int) []generation.Service {
		return []generation.Service{
			{Name: "nova-libvirt", Origin: origin, Guests: &nodefile.Guests{}},
			{Name: "nova-compute", Origin: origin, DependsOn: []string{"nova-libvirt"}, ListedAs: &nodefile.ListedAs{Nova: "nova-compute"}},
		}
	}
	t := &transaction{
		from: generation.Generation{Number: 1, Services: services(1)},
		to:   generation.Generation{Number: 2, Services: services(2)},
	}
	fmt.Println("The running node is not touched:")
	for _, s := range t.prepareSteps() {
		fmt.Println(" ", s.id())
	}
	fmt.Println("Services are replaced:")
	for _, s := range t.cutoverSteps() {
		fmt.Println(" ", s.id())
	}
	// Output:
	// The running node is not touched:
	//   check
	//   pull
	//   render
	//   stage
	//   check
	// Services are replaced:
	//   quiesce
	//   protect guests
	//   cut over nova-libvirt
	//   find guests
	//   cut over nova-compute
	//   verify
}
