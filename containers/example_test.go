package containers_test

import (
	"fmt"

	"github.com/kollet/kollet/containers"
)

func ExampleSpec_Check() {
	spec := containers.Spec{Name: "nova-compute", Image: "kolla/nova-compute:26.2.2"}
	fmt.Println(spec.Check())
	// Output:
	// image "kolla/nova-compute:26.2.2" can change its meaning; give its digest (name@sha256:…) or id (sha256:…)
}

func ExampleSpec_Canonical() {
	a := containers.Spec{
		CapAdd: []string{"SYS_ADMIN", "cap_net_admin"},
		Mounts: []containers.Mount{{Type: containers.Bind, Source: "/run/", Target: "/run", Propagation: "shared"}},
	}
	fmt.Println(a.Canonical().CapAdd, a.Canonical().Mounts, a.Canonical().Restart)
	// Output:
	// [NET_ADMIN SYS_ADMIN] [/run:/run:shared] no
}
