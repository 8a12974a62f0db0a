package containers

import (
	"reflect"
	"strings"
	"testing"
)

const id = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string // in the error; empty: no error
	}{
		"smallest":            {func(s *Spec) {}, ""},
		"by digest":           {func(s *Spec) { s.Image = "registry:5000/kolla/nova-compute@" + id }, ""},
		"no name":             {func(s *Spec) { s.Name = "" }, `name ""`},
		"short name":          {func(s *Spec) { s.Name = "c" }, `name "c"`},
		"name as a path":      {func(s *Spec) { s.Name = "../c" }, `name "../c"`},
		"tag":                 {func(s *Spec) { s.Image = "nova-compute:26.2.2" }, `"nova-compute:26.2.2"`},
		"short id":            {func(s *Spec) { s.Image = "sha256:0123" }, "give its digest"},
		"pid":                 {func(s *Spec) { s.PID = "private" }, `pid "private"`},
		"ipc":                 {func(s *Spec) { s.IPC = "shareable" }, "ipc"},
		"cgroup":              {func(s *Spec) { s.Cgroup = "private" }, "cgroup"},
		"network_mode":        {func(s *Spec) { s.NetworkMode = "bridge" }, "network_mode"},
		"restart":             {func(s *Spec) { s.Restart = "on-failure" }, "restart"},
		"log files only":      {func(s *Spec) { s.LogFiles = 3 }, "set log_size"},
		"negative log size":   {func(s *Spec) { s.LogSize = -1 }, "log_size"},
		"env":                 {func(s *Spec) { s.Env = map[string]string{"A=B": "c"} }, `environment: "A=B"`},
		"device":              {func(s *Spec) { s.Devices = []string{"kvm"} }, `device "kvm"`},
		"relative target":     {func(s *Spec) { s.Mounts = []Mount{{Type: Tmpfs, Target: "run"}} }, `target "run"`},
		"root as target":      {func(s *Spec) { s.Mounts = []Mount{{Type: Tmpfs, Target: "/x/.."}} }, "below /"},
		"same target":         {func(s *Spec) { s.Mounts = []Mount{{Type: Tmpfs, Target: "/a"}, {Type: Tmpfs, Target: "/a/"}} }, "two mounts"},
		"relative source":     {func(s *Spec) { s.Mounts = []Mount{{Type: Bind, Source: "a", Target: "/a"}} }, "not an absolute path"},
		"volume as path":      {func(s *Spec) { s.Mounts = []Mount{{Type: Volume, Source: "/a", Target: "/a"}} }, "not a volume name"},
		"volume without name": {func(s *Spec) { s.Mounts = []Mount{{Type: Volume, Target: "/a"}} }, "not a volume name"},
		"tmpfs with source":   {func(s *Spec) { s.Mounts = []Mount{{Type: Tmpfs, Source: "x", Target: "/a"}} }, `source "x"`},
		"mount type":          {func(s *Spec) { s.Mounts = []Mount{{Type: "nfs", Target: "/a"}} }, `"nfs"`},
		"propagation":         {func(s *Spec) { s.Mounts = []Mount{{Type: Bind, Source: "/a", Target: "/a", Propagation: "both"}} }, `"both"`},
		"size of a volume":    {func(s *Spec) { s.Mounts = []Mount{{Type: Volume, Source: "v", Target: "/a", Size: 1}} }, "only a tmpfs has a size"},
		"mode of a bind":      {func(s *Spec) { s.Mounts = []Mount{{Type: Bind, Source: "/a", Target: "/a", Mode: "0755"}} }, "only a tmpfs has a size and a mode"},
		"negative size":       {func(s *Spec) { s.Mounts = []Mount{{Type: Tmpfs, Target: "/a", Size: -1}} }, "size -1"},
		"tmpfs mode":          {func(s *Spec) { s.Mounts = []Mount{{Type: Tmpfs, Target: "/a", Mode: "755"}} }, `mode "755"`},
		"volume propagation":  {func(s *Spec) { s.Mounts = []Mount{{Type: Volume, Source: "v", Target: "/a", Propagation: "rshared"}} }, "only bind mounts"},
		"ulimit":              {func(s *Spec) { s.Ulimits = []Ulimit{{Name: "files"}} }, `"files"`},
		"ulimit twice":        {func(s *Spec) { s.Ulimits = []Ulimit{{Name: "core"}, {Name: "core"}} }, "twice"},
		"soft above hard":     {func(s *Spec) { s.Ulimits = []Ulimit{{Name: "core", Soft: 2, Hard: 1}} }, "above"},
		"soft unlimited":      {func(s *Spec) { s.Ulimits = []Ulimit{{Name: "core", Soft: -1, Hard: 1}} }, "above"},
		"hard unlimited":      {func(s *Spec) { s.Ulimits = []Ulimit{{Name: "memlock", Soft: 1, Hard: -1}} }, ""},
		"negative":            {func(s *Spec) { s.Ulimits = []Ulimit{{Name: "core", Soft: -2, Hard: -2}} }, "-1 for unlimited"},
		"seccomp":             {func(s *Spec) { s.Security.Seccomp = "none" }, "security_opt: seccomp profile: invalid"},
		"seccomp action":      {func(s *Spec) { s.Security.Seccomp = `{"defaultAction":"SCMP_ACT_NO"}` }, `security_opt: seccomp profile: defaultAction: expected SCMP_ACT_KILL, SCMP_ACT_KILL_PROCESS, SCMP_ACT_KILL_THREAD, SCMP_ACT_TRAP, SCMP_ACT_ERRNO, SCMP_ACT_TRACE, SCMP_ACT_ALLOW, SCMP_ACT_LOG or SCMP_ACT_NOTIFY, got "SCMP_ACT_NO"`},
		"seccomp of a call": {func(s *Spec) {
			s.Security.Seccomp = `{"defaultAction":"SCMP_ACT_LOG","syscalls":[{"action":"SCMP_ACT_LOG"},{"action":"EPERM"}]}`
		}, `seccomp profile: syscalls[1].action: expected SCMP_ACT_KILL,`},
		"seccomp errno": {func(s *Spec) {
			s.Security.Seccomp = `{"defaultAction":"SCMP_ACT_LOG","syscalls":[{"action":"SCMP_ACT_ERRNO","errnoRet":4096}]}`
		}, "syscalls[0].action: expected an error number up to 4095 to return, got 4096"},
		"seccomp errno word": {func(s *Spec) { s.Security.Seccomp = `{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":"EPERM"}` }, "seccomp profile: defaultErrnoRet: expected a positive number, got a string"},
		"seccomp operator": {func(s *Spec) {
			s.Security.Seccomp = `{"defaultAction":"SCMP_ACT_LOG","syscalls":[{"action":"SCMP_ACT_LOG","args":[{"index":0,"op":"="}]}]}`
		}, `syscalls[0].args[0].op: expected SCMP_CMP_NE, `},
		"seccomp argument": {func(s *Spec) {
			s.Security.Seccomp = `{"defaultAction":"SCMP_ACT_LOG","syscalls":[{"action":"SCMP_ACT_LOG","args":[{"index":6,"op":"SCMP_CMP_EQ"}]}]}`
		}, `syscalls[0].args[0].index: expected 0 to 5, got 6`},
		"seccomp notify": {func(s *Spec) {
			s.Security.Seccomp = `{"defaultAction":"SCMP_ACT_LOG","syscalls":[{"action":"SCMP_ACT_NOTIFY"}]}`
		}, `syscalls[0].action: SCMP_ACT_NOTIFY needs a listenerPath`},
		"much memory":         {func(s *Spec) { s.Dimensions.MemLimit = 1<<60 + 1 }, "dimensions.mem_limit: expected 1024p or less, got 1152921504606846977"},
		"privileged, seccomp": {func(s *Spec) { s.Privileged, s.Security.Seccomp = true, `{"defaultAction":"SCMP_ACT_LOG"}` }, "remove one of the two"},
		"privileged, none":    {func(s *Spec) { s.Privileged, s.Security.Seccomp = true, Unconfined }, ""},
		"dimension":           {func(s *Spec) { s.Dimensions.BlkioWeight = 1001 }, "dimensions.blkio_weight: expected 10 to 1000, got 1001"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Spec{Name: "nova", Image: id}
			c.change(&spec)
			err := spec.Check()
			if c.want == "" && err != nil {
				t.Fatal(err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestCanonical(t *testing.T) {
	given := Spec{
		Name: "c", Image: id,
		Entrypoint: []string{}, Command: []string{"b", "a"},
		Labels: map[string]string{}, Env: map[string]string{"A": "1"},
		CapAdd: []string{"net_admin", "CAP_CHOWN", "NET_ADMIN"}, CapDrop: []string{},
		Devices: []string{"/dev/vhost-net", "/dev//kvm"},
		Mounts: []Mount{
			{Type: Volume, Source: "v", Target: "/var/lib/nova/"},
			{Type: Bind, Source: "/lib/modules/", Target: "/lib/modules", Propagation: "rprivate"},
		},
		Ulimits:    []Ulimit{{Name: "nofile"}, {Name: "core"}},
		Dimensions: Dimensions{MemLimit: 1 << 30, CPUQuota: -1},
	}
	want := Spec{
		Name: "c", Image: id, Command: []string{"b", "a"}, Env: map[string]string{"A": "1"},
		CapAdd:  []string{"CHOWN", "NET_ADMIN"},
		Devices: []string{"/dev/kvm", "/dev/vhost-net"},
		Mounts: []Mount{
			{Type: Bind, Source: "/lib/modules", Target: "/lib/modules"},
			{Type: Volume, Source: "v", Target: "/var/lib/nova"},
		},
		Ulimits:    []Ulimit{{Name: "core"}, {Name: "nofile"}},
		Dimensions: Dimensions{MemLimit: 1 << 30},
		Restart:    RestartNo,
	}
	got := given.Canonical()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	if again := got.Canonical(); !reflect.DeepEqual(again, want) {
		t.Errorf("not stable: %+v", again)
	}
	got.Mounts[0].Target, got.Env["A"], got.CapAdd[0] = "x", "x", "x"
	if given.Mounts[1].Target != "/lib/modules" || given.Env["A"] != "1" || given.CapAdd[1] != "CAP_CHOWN" {
		t.Error("the copy shares its lists with the original")
	}
}
