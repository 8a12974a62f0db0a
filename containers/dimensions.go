package containers

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Dimensions limit what the processes of a container use together. Their names are
// those of kolla-ansible. Zero and empty: no limit.
type Dimensions struct {
	MemLimit       int64  `json:"mem_limit,omitempty"`       // bytes
	MemReservation int64  `json:"mem_reservation,omitempty"` // bytes that it keeps when the host is short of memory
	MemswapLimit   int64  `json:"memswap_limit,omitempty"`   // bytes of memory and swap together; -1: unlimited; 0: twice MemLimit, if the host can limit swap
	CPUPeriod      int64  `json:"cpu_period,omitempty"`      // µs; 0: the kernel's 100 ms
	CPUQuota       int64  `json:"cpu_quota,omitempty"`       // µs of all processors in each period; -1: no limit
	CPUShares      int64  `json:"cpu_shares,omitempty"`      // weight when processors are busy; others have 1024
	CpusetCpus     string `json:"cpuset_cpus,omitempty"`     // processors, such as 0-3,8
	CpusetMems     string `json:"cpuset_mems,omitempty"`     // NUMA nodes
	BlkioWeight    int64  `json:"blkio_weight,omitempty"`    // weight when disks are busy
}

// leastMemory is the smallest mem_limit that Docker accepts: a container needs
// memory to start at all.
const leastMemory = 6 << 20

// mostMemory is more than any host has. Twice as much is still a number for engines, which
// limit memory and swap together to that.
const mostMemory = 1 << 60

// mostQuota is that of a million processors in the longest period. The kernel has a limit, too.
const mostQuota = 1_000_000_000_000

var cpuset = regexp.MustCompile(`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`)

// Check returns the first problem that every engine has with the dimensions, and
// the key that it is about.
func (d Dimensions) Check() (key string, err error) {
	for _, m := range []struct {
		key   string
		bytes int64
	}{{"mem_limit", d.MemLimit}, {"mem_reservation", d.MemReservation}, {"memswap_limit", d.MemswapLimit}} {
		if m.bytes > mostMemory {
			return m.key, fmt.Errorf("expected %s or less, got %s", size(mostMemory), size(m.bytes))
		}
	}
	switch {
	case d.MemLimit != 0 && d.MemLimit < leastMemory:
		return "mem_limit", fmt.Errorf("expected %s or more, got %s", size(leastMemory), size(d.MemLimit))
	case d.MemReservation != 0 && d.MemReservation < leastMemory:
		return "mem_reservation", fmt.Errorf("expected %s or more, got %s", size(leastMemory), size(d.MemReservation))
	case d.MemLimit != 0 && d.MemReservation > d.MemLimit:
		return "mem_reservation", fmt.Errorf("expected no more than mem_limit, which is %s, got %s", size(d.MemLimit), size(d.MemReservation))
	case d.MemswapLimit < -1:
		return "memswap_limit", fmt.Errorf("expected a size, or -1 for unlimited swap, got %d", d.MemswapLimit)
	case d.MemswapLimit != 0 && d.MemLimit == 0:
		return "memswap_limit", fmt.Errorf("it limits memory and swap together; set mem_limit too")
	case d.MemswapLimit > 0 && d.MemswapLimit < d.MemLimit:
		return "memswap_limit", fmt.Errorf("it limits memory and swap together; expected mem_limit, which is %s, or more, got %s", size(d.MemLimit), size(d.MemswapLimit))
	case d.CpusetCpus != "" && !isCpuset(d.CpusetCpus):
		return "cpuset_cpus", fmt.Errorf("expected numbers of processors, such as 0-3,8, got %q", d.CpusetCpus)
	case d.CpusetMems != "" && !isCpuset(d.CpusetMems):
		return "cpuset_mems", fmt.Errorf("expected numbers of NUMA nodes, such as 0,1, got %q", d.CpusetMems)
	case d.CPUQuota != 0 && d.CPUQuota != -1 && (d.CPUQuota < 1000 || d.CPUQuota > mostQuota):
		return "cpu_quota", fmt.Errorf("expected 1000 to %d (µs), or -1 for no limit, got %d", int64(mostQuota), d.CPUQuota)
	}
	for _, r := range []struct {
		key             string
		value, from, to int64
	}{
		{"cpu_period", d.CPUPeriod, 1000, 1_000_000},
		{"cpu_shares", d.CPUShares, 2, 262_144},
		{"blkio_weight", d.BlkioWeight, 10, 1000},
	} {
		if r.value != 0 && (r.value < r.from || r.value > r.to) {
			return r.key, fmt.Errorf("expected %d to %d, got %d", r.from, r.to, r.value)
		}
	}
	return "", nil
}

// isCpuset reports whether a text is a list of numbers and ranges, none of which is backwards
// (cpuset(7): List format).
func isCpuset(text string) bool {
	if !cpuset.MatchString(text) {
		return false
	}
	for part := range strings.SplitSeq(text, ",") {
		if from, to, isRange := strings.Cut(part, "-"); isRange {
			a, errA := strconv.Atoi(from)
			b, errB := strconv.Atoi(to)
			if errA != nil || errB != nil || a > b {
				return false
			}
		}
	}
	return true
}

// Settings returns what is set, as KEY=VALUE.
func (d Dimensions) Settings() []string {
	var all []string
	for _, s := range []struct {
		key, value string
		set        bool
	}{
		{"mem_limit", size(d.MemLimit), d.MemLimit != 0},
		{"mem_reservation", size(d.MemReservation), d.MemReservation != 0},
		{"memswap_limit", size(d.MemswapLimit), d.MemswapLimit != 0},
		{"cpu_period", strconv.FormatInt(d.CPUPeriod, 10), d.CPUPeriod != 0},
		{"cpu_quota", strconv.FormatInt(d.CPUQuota, 10), d.CPUQuota != 0},
		{"cpu_shares", strconv.FormatInt(d.CPUShares, 10), d.CPUShares != 0},
		{"cpuset_cpus", d.CpusetCpus, d.CpusetCpus != ""},
		{"cpuset_mems", d.CpusetMems, d.CpusetMems != ""},
		{"blkio_weight", strconv.FormatInt(d.BlkioWeight, 10), d.BlkioWeight != 0},
	} {
		if s.set {
			all = append(all, s.key+"="+s.value)
		}
	}
	return all
}

// size returns bytes in the largest unit that leaves no rest.
func size(n int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"p", 1 << 50}, {"t", 1 << 40}, {"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}} {
		if n > 0 && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}
