package containerd

import (
	"context"

	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kollet/kollet/containers"
)

// dimensions sets the limits of the container's cgroup. The runtime fails to start a
// container whose limits the host does not have. Without a memswap_limit, memory and
// swap together are limited to twice the memory, as with Docker.
func dimensions(d containers.Dimensions, canLimitSwap bool) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *ctr.Container, s *specs.Spec) error {
		if d.MemswapLimit == 0 && canLimitSwap {
			d.MemswapLimit = 2 * d.MemLimit
		}
		r := s.Linux.Resources
		if d.MemLimit != 0 || d.MemReservation != 0 {
			r.Memory = &specs.LinuxMemory{Limit: unlessZero(d.MemLimit), Reservation: unlessZero(d.MemReservation), Swap: unlessZero(d.MemswapLimit)}
		}
		cpu := specs.LinuxCPU{
			Shares: unlessZero(uint64(d.CPUShares)), Period: unlessZero(uint64(d.CPUPeriod)), Quota: unlessZero(d.CPUQuota), //nolint:gosec // not negative
			Cpus: d.CpusetCpus, Mems: d.CpusetMems,
		}
		if cpu != (specs.LinuxCPU{}) {
			r.CPU = &cpu
		}
		if d.BlkioWeight != 0 {
			r.BlockIO = &specs.LinuxBlockIO{Weight: unlessZero(uint16(d.BlkioWeight))} //nolint:gosec // at most 1000
		}
		return nil
	}
}

// dimensionsNow returns the limits that a container has now. was is what it was
// created with.
func dimensionsNow(r *specs.LinuxResources, was containers.Dimensions) containers.Dimensions {
	var d containers.Dimensions
	if m := r.Memory; m != nil {
		d.MemLimit, d.MemReservation, d.MemswapLimit = value(m.Limit), value(m.Reservation), value(m.Swap)
		if was.MemswapLimit == 0 && d.MemswapLimit == 2*d.MemLimit {
			d.MemswapLimit = 0
		}
	}
	if c := r.CPU; c != nil {
		d.CPUPeriod, d.CPUQuota, d.CPUShares = int64(value(c.Period)), value(c.Quota), int64(value(c.Shares)) //nolint:gosec // the kernel's limits are lower
		d.CpusetCpus, d.CpusetMems = c.Cpus, c.Mems
	}
	if b := r.BlockIO; b != nil {
		d.BlkioWeight = int64(value(b.Weight))
	}
	return d
}

func unlessZero[T comparable](n T) *T {
	var zero T
	if n == zero {
		return nil
	}
	return &n
}

func value[T any](p *T) (n T) {
	if p != nil {
		n = *p
	}
	return n
}
