package conformance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// dimensionTests test limits of what a container's processes use together.
var dimensionTests = []test{
	{"dimensions are those of the container's cgroup", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Dimensions = containers.Dimensions{
			MemLimit: 64 << 20, MemReservation: 32 << 20, MemswapLimit: 80 << 20,
			CPUPeriod: 50000, CPUQuota: 25000, CPUShares: 512, CpusetCpus: "0", CpusetMems: "0",
		}
		id := s.start(t, spec)
		spec.Name, spec.Restart = unique("updated"), containers.RestartUnlessStopped
		must(t, s.Engine.Update(t.Context(), id, spec.Name, spec.Restart)) // changes no dimension
		c := s.inspect(t, id)
		wantSpec(t, c, spec)
		cgroup := cgroupOf(t, c.PID)
		equal(t, "mem_limit", cgroup("memory", "memory.limit_in_bytes", "memory.max"), "67108864")
		equal(t, "mem_reservation", cgroup("memory", "memory.soft_limit_in_bytes", "memory.low"), "33554432")
		if host.Real().LimitsSwap() {
			equal(t, "memswap_limit", cgroup("memory", "memory.memsw.limit_in_bytes", "memory.swap.max"), onV2(t, "83886080", "16777216"))
		}
		equal(t, "cpu_quota", cgroup("cpu", "cpu.cfs_quota_us", "cpu.max"), onV2(t, "25000", "25000 50000"))
		equal(t, "cpu_period", cgroup("cpu", "cpu.cfs_period_us", "cpu.max"), onV2(t, "50000", "25000 50000"))
		equal(t, "cpu_shares", cgroup("cpu", "cpu.shares", "cpu.weight"), onV2(t, "512", "20"))
		equal(t, "cpuset_cpus", cgroup("cpuset", "cpuset.cpus", "cpuset.cpus"), "0")
		equal(t, "cpuset_mems", cgroup("cpuset", "cpuset.mems", "cpuset.mems"), "0")
	}},
	{"swap is limited to as much as memory by default", func(t *testing.T, s *suite) {
		if !host.Real().LimitsSwap() {
			t.Log("this host cannot limit swap")
			return
		}
		spec := s.script(forever)
		spec.Dimensions.MemLimit = 64 << 20
		cgroup := cgroupOf(t, s.inspect(t, s.start(t, spec)).PID)
		equal(t, "memswap_limit", cgroup("memory", "memory.memsw.limit_in_bytes", "memory.swap.max"), onV2(t, "134217728", "67108864"))
	}},
	{"what needs more memory is killed", func(t *testing.T, s *suite) {
		spec := s.script("head -c 100000000 /dev/zero | tail -n 1 > /dev/null && echo enough; true") // tail keeps its line in memory
		equal(t, "without a limit", s.run(t, spec), "enough")
		spec.Name = unique("c")
		spec.Dimensions.MemLimit, spec.Dimensions.MemswapLimit = 16<<20, 16<<20
		id := s.start(t, spec)
		s.await(t, id, containers.StateExited) // with any status: the kernel chooses what it kills
		if out := s.logs(t, id, containers.LogOptions{}); strings.Contains(out, "enough") {
			t.Errorf("16 MiB were enough for 100 MB: %s", out)
		}
	}},
	// Kernels differ in whether they have weights of disks, and so do engines in which
	// of their files they know.
	{"weight of disks takes effect or is refused", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Dimensions.BlkioWeight = 300
		id, err := s.Engine.Create(t.Context(), spec)
		if err == nil {
			s.removeLater(t, id)
			wantSpec(t, s.inspect(t, id), spec)
			err = s.Engine.Start(t.Context(), id)
		}
		if err != nil {
			wantError(t, err, "weight")
			return
		}
		cgroup := cgroupOf(t, s.inspect(t, id).PID)
		weight := cgroup("blkio", "blkio.bfq.weight", "io.bfq.weight")
		if weight == "" {
			weight = cgroup("blkio", "blkio.weight", "io.weight")
		}
		if weight != "300" && weight != "default 300" && weight != "default 2930" { // io.weight has other units
			t.Errorf("no error, and the weight is %q", weight)
		}
	}},
	{"processor that the host does not have is an error", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Dimensions.CpusetCpus = "0,4095"
		id, err := s.Engine.Create(t.Context(), spec)
		if err == nil {
			s.removeLater(t, id)
			err = s.Engine.Start(t.Context(), id)
		}
		wantError(t, err, "4095", "correct the dimensions of the service")
	}},
}

// cgroupOf returns a function that reads a file of a process's cgroup: the first of a
// controller with cgroup v1, the second with v2. It returns nothing if there is no such
// file.
func cgroupOf(t *testing.T, pid int) func(controller, v1, v2 string) string {
	t.Helper()
	paths, err := host.Real().Membership(pid)
	must(t, err)
	return func(controller, v1, v2 string) string {
		t.Helper()
		file := filepath.Join("/sys/fs/cgroup", paths[""], v2)
		if !cgroupV2(t) {
			for names, path := range paths {
				if slices.Contains(strings.Split(names, ","), controller) {
					file = filepath.Join("/sys/fs/cgroup", controller, path, v1)
				}
			}
		}
		data, err := os.ReadFile(file)
		if !errors.Is(err, fs.ErrNotExist) {
			must(t, err)
		}
		return strings.TrimSpace(string(data))
	}
}

// onV2 returns the second value on a host with cgroup v2, else the first.
func onV2(t *testing.T, v1, v2 string) string {
	t.Helper()
	if cgroupV2(t) {
		return v2
	}
	return v1
}

func cgroupV2(t *testing.T) bool {
	t.Helper()
	v2, err := host.Real().CgroupV2()
	must(t, err)
	return v2
}
