package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/kollet/kollet/containers"
)

func toResources(d containers.Dimensions) container.Resources {
	return container.Resources{
		Memory: d.MemLimit, MemoryReservation: d.MemReservation, MemorySwap: d.MemswapLimit,
		CPUPeriod: d.CPUPeriod, CPUQuota: d.CPUQuota, CPUShares: d.CPUShares,
		CpusetCpus: d.CpusetCpus, CpusetMems: d.CpusetMems,
		BlkioWeight: uint16(d.BlkioWeight), //nolint:gosec // at most 1000
	}
}

// cpuPeriod is the kernel's period, to which `docker update --cpus` refers.
const cpuPeriod = 100_000

// fromResources returns a container's dimensions. Without a memswap_limit, the
// engine sets its default: twice the memory, or no limit on a host that cannot
// limit swap.
func fromResources(r container.Resources, memswapIsSet bool) containers.Dimensions {
	d := containers.Dimensions{
		MemLimit: r.Memory, MemReservation: r.MemoryReservation, MemswapLimit: r.MemorySwap,
		CPUPeriod: r.CPUPeriod, CPUQuota: r.CPUQuota, CPUShares: r.CPUShares,
		CpusetCpus: r.CpusetCpus, CpusetMems: r.CpusetMems, BlkioWeight: int64(r.BlkioWeight),
	}
	if !memswapIsSet && (r.MemorySwap == 2*r.Memory || r.MemorySwap == -1) {
		d.MemswapLimit = 0
	}
	if r.NanoCPUs != 0 { // set with --cpus, manually
		d.CPUPeriod, d.CPUQuota = cpuPeriod, r.NanoCPUs*cpuPeriod/1e9
	}
	return d
}

// hasFreeSwap reports whether a container's memory is limited and its swap is not. Docker does so
// itself where it cannot limit swap, and nothing differs then.
func hasFreeSwap(r container.Resources) bool { return r.Memory > 0 && r.MemorySwap == -1 }

// checkDimensions removes a new container and returns an error if the engine has
// dropped any of its dimensions: what the host cannot limit, Docker leaves out
// with a warning.
func (e *Engine) checkDimensions(ctx context.Context, id string, spec containers.Spec) error {
	want := spec.Dimensions.Settings()
	if len(want) == 0 {
		return nil
	}
	c, err := e.client.ContainerInspect(ctx, id)
	if err == nil {
		got := fromResources(c.HostConfig.Resources, spec.Dimensions.MemswapLimit != 0).Settings()
		dropped := slices.DeleteFunc(want, func(s string) bool { return slices.Contains(got, s) })
		if len(dropped) == 0 {
			return nil
		}
		err = fmt.Errorf("docker cannot limit this on this host: %s; remove it from dimensions", strings.Join(dropped, ", "))
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	return errors.Join(err, e.client.ContainerRemove(undo, id, container.RemoveOptions{RemoveVolumes: true, Force: true}))
}
