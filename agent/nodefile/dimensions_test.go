package nodefile_test

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

func TestDimensions(t *testing.T) {
	for fields, want := range map[string]containers.Dimensions{
		"{}":                                             {},
		"{mem_limit: 4g}":                                {MemLimit: 4 << 30},
		"{mem_limit: 512m}":                              {MemLimit: 512 << 20},
		"{mem_limit: 8388608}":                           {MemLimit: 8 << 20},
		"{mem_limit: 0}":                                 {},
		"{mem_reservation: 6144k}":                       {MemReservation: 6 << 20},
		"{mem_limit: 1g, memswap_limit: 1g}":             {MemLimit: 1 << 30, MemswapLimit: 1 << 30},
		"{mem_limit: 1GiB, memswap_limit: -1}":           {MemLimit: 1 << 30, MemswapLimit: -1},
		"{cpu_period: 50000, cpu_quota: -1}":             {CPUPeriod: 50000, CPUQuota: -1},
		"{cpu_quota: 200000, cpu_shares: 2}":             {CPUQuota: 200000, CPUShares: 2},
		"{cpuset_cpus: 3, cpuset_mems: 0-1}":             {CpusetCpus: "3", CpusetMems: "0-1"},
		"{cpuset_cpus: '0-3,8,10-11', blkio_weight: 10}": {CpusetCpus: "0-3,8,10-11", BlkioWeight: 10},
	} {
		node, err := parse(own("dimensions: " + fields))
		if err != nil {
			t.Errorf("%s: %v", fields, err)
			continue
		}
		if got, _, err := node.Services["one"].Dimensions.Parse(); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", fields, got, err, want)
		}
	}
}

func TestDimensionsOfAProfile(t *testing.T) {
	profile := func(string) ([]byte, error) {
		return []byte("networks: {linuxbridge: []}\nservices: {one: {image: a, dimensions: {mem_limit: 1g, cpu_shares: 512}}}\n"), nil
	}
	node, err := nodefile.Parse("node.yaml", []byte("images: {tag: v1}\nservices: {one: {dimensions: {mem_limit: 2g, cpuset_cpus: 1}}}\n"), profile, nodefile.Change{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := node.Services["one"].Dimensions, (nodefile.Dimensions{MemLimit: "2g", CPUShares: 512, CpusetCpus: "1"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestWrongDimensions(t *testing.T) {
	for fields, want := range map[string]string{
		"{mem_limit: much}":                     `mem_limit: expected a size such as 512m or 4g, got "much"`,
		"{mem_limit: 99999999999g}":             `mem_limit: expected 1024p or less, got "99999999999g"`,
		"{mem_limit: 9e}":                       `mem_limit: expected a size such as 512m or 4g, got "9e"`,
		"{mem_limit: 1025p}":                    `mem_limit: expected 1024p or less, got "1025p"`,
		"{mem_limit: 1g, memswap_limit: 8192p}": `memswap_limit: expected 1024p or less, got "8192p"`,
		"{cpu_quota: 4611686018427387904}":      "cpu_quota: expected 1000 to 1000000000000 (µs), or -1 for no limit, got 4611686018427387904",
		"{mem_limit: -1}":                       `mem_limit: expected a size such as 512m or 4g, got "-1"`,
		"{mem_limit: 4}":                        "mem_limit: expected 6m or more, got 4",
		"{mem_reservation: 1m}":                 "mem_reservation: expected 6m or more, got 1m",
		"{mem_limit: 1g, mem_reservation: 2g}":  "mem_reservation: expected no more than mem_limit, which is 1g, got 2g",
		"{memswap_limit: 1g}":                   "memswap_limit: it limits memory and swap together; set mem_limit too",
		"{mem_limit: 2g, memswap_limit: 1536m}": "memswap_limit: it limits memory and swap together; expected mem_limit, which is 2g, or more, got 1536m",
		"{mem_limit: 2g, memswap_limit: -2}":    `memswap_limit: expected a size such as 512m or 4g, got "-2"`,
		"{cpu_period: 999}":                     "cpu_period: expected 1000 to 1000000, got 999",
		"{cpu_quota: 999}":                      "cpu_quota: expected 1000 to 1000000000000 (µs), or -1 for no limit, got 999",
		"{cpu_quota: 0.5}":                      `cpu_quota: expected a whole number, got "0.5"`,
		"{cpu_shares: 1}":                       "cpu_shares: expected 2 to 262144, got 1",
		"{cpu_shares: -1}":                      "cpu_shares: expected 2 to 262144, got -1",
		"{blkio_weight: 9}":                     "blkio_weight: expected 10 to 1000, got 9",
		"{cpuset_cpus: all}":                    `cpuset_cpus: expected numbers of processors, such as 0-3,8, got "all"`,
		"{cpuset_cpus: '0,3-1'}":                `cpuset_cpus: expected numbers of processors, such as 0-3,8, got "0,3-1"`,
		"{cpuset_cpus: '0-'}":                   `cpuset_cpus: expected numbers of processors, such as 0-3,8, got "0-"`,
		"{cpuset_mems: '0 1'}":                  `cpuset_mems: expected numbers of NUMA nodes, such as 0,1, got "0 1"`,
		"{kernel_memory: 1g}":                   "kernel_memory: unknown key; Linux no longer has this limit",
		"{ulimits: {}}":                         "ulimits: unknown key; it is a key of the service",
		"{mem_limt: 1g}":                        "mem_limt: unknown key; did you mean mem_limit?",
	} {
		_, err := parse(own("cap_add: []\ndimensions: " + fields))
		at := "node.yaml:6:"
		if err == nil || !strings.HasPrefix(err.Error(), at) || !strings.Contains(err.Error(), ": services.one.dimensions."+want) {
			t.Errorf("%s: got %v, want %s…: services.one.dimensions.%s", fields, err, at, want)
		}
	}
	for _, key := range []string{"limits", "resources"} {
		if _, err := parse(own(key + ": {mem_limit: 1g}")); err == nil || !strings.Contains(err.Error(), "did you mean dimensions?") {
			t.Errorf("%s: %v", key, err)
		}
	}
}
