package failure_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

func ExampleEngine_Error() {
	engine := failure.Engine{Name: "docker", Space: "docker keeps its data"}
	err := engine.Error("creating container nova-compute", errors.New("mkdir /var/lib/docker/overlay2/1: no space left on device"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, syscall.ENOSPC), failure.Remedy(err))
	// Output:
	// creating container nova-compute: mkdir /var/lib/docker/overlay2/1: no space left on device; free disk space where docker keeps its data
	// true free disk space where docker keeps its data
}

func ExampleEngine_PullError() {
	engine := failure.Engine{Name: "docker"}
	cause := errors.New("manifest for registry:5000/kolla/nova-compute:1 not found: manifest unknown")
	err := engine.PullError(context.Background(), "pulling image registry:5000/kolla/nova-compute:1", "registry:5000", cause)
	fmt.Println(err)
	fmt.Println(errors.Is(err, containers.ErrNotFound), errors.Is(err, cause))
	// Output:
	// pulling image registry:5000/kolla/nova-compute:1: not found in registry registry:5000: manifest for registry:5000/kolla/nova-compute:1 not found: manifest unknown; check the image's name and tag there
	// true true
}
