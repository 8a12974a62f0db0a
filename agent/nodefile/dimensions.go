package nodefile

import (
	"fmt"

	"github.com/docker/go-units"

	"github.com/kollet/kollet/containers"
)

// Dimensions limit what a service uses. The keys are those of kolla-ansible, as in its
// nova_compute_dimensions.
type Dimensions struct {
	MemLimit       string `yaml:"mem_limit" doc:"memory, such as 4g; when the service needs more, its processes are killed"`
	MemReservation string `yaml:"mem_reservation" doc:"memory that the service keeps when the host is short of it"`
	MemswapLimit   string `yaml:"memswap_limit" doc:"memory and swap together, -1 for unlimited swap (default twice mem_limit, if the host can limit swap)"`
	CPUPeriod      int64  `yaml:"cpu_period" doc:"period of cpu_quota in microseconds (default 100000)"`
	CPUQuota       int64  `yaml:"cpu_quota" doc:"microseconds of processor time in each period, such as 200000 for two processors; -1: no limit"`
	CPUShares      int64  `yaml:"cpu_shares" doc:"weight when processors are busy; other services have 1024"`
	CpusetCpus     string `yaml:"cpuset_cpus" doc:"processors that the service may use, such as 0-3,8"`
	CpusetMems     string `yaml:"cpuset_mems" doc:"NUMA nodes whose memory the service may use, such as 0,1"`
	BlkioWeight    int64  `yaml:"blkio_weight" doc:"weight when disks are busy, 10 to 1000"`
}

// Parse returns the dimensions as an engine takes them, or the key of the first
// problem with it.
func (d Dimensions) Parse() (out containers.Dimensions, key string, err error) {
	out = containers.Dimensions{
		CPUPeriod: d.CPUPeriod, CPUQuota: d.CPUQuota, CPUShares: d.CPUShares,
		CpusetCpus: d.CpusetCpus, CpusetMems: d.CpusetMems, BlkioWeight: d.BlkioWeight,
	}
	for _, s := range []struct {
		key, text string
		into      *int64
	}{{"mem_limit", d.MemLimit, &out.MemLimit}, {"mem_reservation", d.MemReservation, &out.MemReservation}, {"memswap_limit", d.MemswapLimit, &out.MemswapLimit}} {
		switch {
		case s.text == "":
		case s.text == "-1" && s.into == &out.MemswapLimit:
			*s.into = -1
		default:
			if *s.into, err = inBytes(s.text, "512m or 4g"); err != nil {
				return out, s.key, err
			}
		}
	}
	key, err = out.Check()
	return out, key, err
}

// mostBytes is the largest size that a node file can have, an exbibyte.
const mostBytes = 1 << 60

// inBytes reads a size. The error has an example.
func inBytes(text, example string) (int64, error) {
	n, err := units.RAMInBytes(text)
	if err != nil {
		return 0, fmt.Errorf("expected a size such as %s, got %q", example, text)
	}
	if n < 0 || n > mostBytes { // what does not fit into an int64 becomes any number
		return 0, fmt.Errorf("expected %dp or less, got %q", mostBytes>>50, text)
	}
	return n, nil
}

// LogBytes returns the size of a log file before it is rotated, 0 if it has none.
func (s Service) LogBytes() (int64, error) {
	if s.LogSize == "" {
		return 0, nil
	}
	return inBytes(s.LogSize, "10MiB")
}
