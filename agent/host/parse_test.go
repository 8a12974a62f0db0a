package host

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

const after = " S 1 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 99 1 18446744073709551615"

func TestParseStat(t *testing.T) {
	for name, c := range map[string]struct {
		stat  string
		state string
		start string
	}{
		"plain":             {"3 (qemu-system-x86)" + after, "S", "4711"},
		"blanks":            {"3 (CPU 0/KVM)" + after, "S", "4711"},
		"parentheses":       {"3 (a) R 9 (b)" + after, "S", "4711"},
		"open alone":        {"3 (()" + after, "S", "4711"},
		"a line end":        {"3 (a\nb)" + after + "\n", "S", "4711"},
		"nothing in it":     {"3 ()" + after, "S", "4711"},
		"short":             {"3 (a) S 1 2", "S", ""},
		"empty":             {"", "", ""},
		"no command":        {"3 a S 1", "", ""},
		"ends with command": {"3 (a)", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fields := parseStat([]byte(c.stat))
			var state, start string
			if len(fields) > 0 {
				state = fields[0]
			}
			if len(fields) > 19 {
				start = fields[19]
			}
			if state != c.state || start != c.start {
				t.Errorf("got %q, %q", state, start)
			}
		})
	}
}

// FuzzParseStat: no command name shifts the fields behind it.
func FuzzParseStat(f *testing.F) {
	f.Add("a) R (b")
	f.Fuzz(func(t *testing.T, comm string) {
		if fields := parseStat([]byte("3 (" + comm + ")" + after)); len(fields) < 20 || fields[0] != "S" || fields[19] != "4711" {
			t.Errorf("%q", fields)
		}
		for _, field := range parseStat([]byte(comm)) {
			if strings.ContainsAny(field, " )") {
				t.Errorf("field %q of %q", field, comm)
			}
		}
	})
}

func TestInside(t *testing.T) {
	container := Membership{"pids": "/docker/abc", "cpu": "/docker/abc", "memory": "/", "": "/system.slice/docker-abc.scope"}
	for name, c := range map[string]struct {
		process Membership
		want    []string
	}{
		"the container itself":       {container, []string{"", "cpu", "pids"}},
		"below it":                   {Membership{"pids": "/docker/abc/libvirt/a", "cpu": "/machine/a", "": "/system.slice/docker-abc.scope/x"}, []string{"", "pids"}},
		"a longer name":              {Membership{"pids": "/docker/abcd", "cpu": "/docker/abc-2/x", "": "/system.slice/docker-abc.scope2"}, nil},
		"above it":                   {Membership{"pids": "/docker", "cpu": "/", "memory": "/", "": "/system.slice"}, nil},
		"the root is no container's": {Membership{"memory": "/"}, nil},
		"in another hierarchy":       {Membership{"blkio": "/docker/abc"}, nil},
		"in no cgroup":               {Membership{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.process.inside(container)
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzMembership(f *testing.F) {
	f.Add("12:pids:/docker/abc\n0::/x\n", "12:pids:/docker/abcd\n")
	f.Add("0::\n", "0::/\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		process, container := parseMembership(a), parseMembership(b)
		for _, name := range process.inside(container) {
			at, own := process[name], container[name]
			if own == "/" || at != own && !strings.HasPrefix(at, own+"/") {
				t.Errorf("%q is not in %q", at, own)
			}
		}
	})
}

// hierarchies is what a container's processes and moves use to find cgroups.
func TestHierarchies(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]string // mount point by hierarchy
	}{
		"hybrid": {`31 23 0:28 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
32 31 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
33 31 0:30 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup rw,xattr,name=systemd
34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 master:2 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/abc /mnt/pids rw - cgroup cgroup rw,pids
36 31 0:33 / /sys/fs/cgroup/with\040blank rw - cgroup cgroup rw,memory
`, map[string]string{"": "/sys/fs/cgroup/unified", "name=systemd": "/sys/fs/cgroup/systemd", "cpu,cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct,cpu": "/sys/fs/cgroup/cpu,cpuacct", "pids": "", "memory": "/sys/fs/cgroup/with blank"}},
		"version 2": {"31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", map[string]string{"": "/sys/fs/cgroup", "memory": "", "name=systemd": ""}},
		"none":      {"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n", map[string]string{"": "", "cpu": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			mounts, err := fakeMounts(t, "self", c.text).hierarchies()
			if err != nil {
				t.Fatal(err)
			}
			cgroup := Cgroup{mounts: mounts}
			for hierarchy, want := range c.want {
				if got, ok := cgroup.mount(hierarchy); got != want || ok != (want != "") {
					t.Errorf("%q: %q, %v", hierarchy, got, ok)
				}
			}
		})
	}
	if _, err := fakeMounts(t, "self", "broken - cgroup\n").hierarchies(); err == nil {
		t.Error("no error for a broken line")
	}
}

func TestRuns(t *testing.T) {
	const in, elsewhere, none = "2:pids:/docker/abc\n", "2:pids:/docker/abd\n", "2:pids:/\n"
	for name, c := range map[string]struct {
		threads map[string][2]string // cgroup and state, by number
		want    bool
	}{
		"runs":                          {map[string][2]string{"7": {in, "S"}}, true},
		"gone":                          {nil, false},
		"exited, version 1":             {map[string][2]string{"7": {none, "Z"}}, false},
		"exited, version 2":             {map[string][2]string{"7": {in, "Z"}}, false},
		"another process":               {map[string][2]string{"7": {elsewhere, "S"}}, false},
		"executes a program":            {map[string][2]string{"7": {none, "Z"}, "8": {in, "R"}}, true},
		"executes a program, version 2": {map[string][2]string{"7": {in, "Z"}, "8": {in, "R"}}, true},
	} {
		h := Host{Proc: t.TempDir()}
		for number, thread := range c.threads {
			dir := h.ProcessPath(7, "task/"+number)
			err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(dir+"/cgroup", []byte(thread[0]), 0o644),
				os.WriteFile(dir+"/stat", []byte("7 (tiny) "+thread[1]+strings.Repeat(" 0", 30)), 0o644))
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := h.Runs(7, "abc"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A container is known by its whole id. What has a part of it belongs to another, and might
// be killed as what is left of this one.
func TestCgroupNamed(t *testing.T) {
	const id, other = "9ba5348d5d40055b", "349ba5348d5d40055b"
	for path, want := range map[string]string{
		"/docker/" + id:                                  "/docker/" + id,
		"/docker/" + id + "/machine/qemu-1-a":            "/docker/" + id,
		"/system.slice/docker-" + id + ".scope":          "/system.slice/docker-" + id + ".scope",
		"/system.slice/docker-" + id + ".scope/a/b":      "/system.slice/docker-" + id + ".scope",
		"/kollet-guests-" + id:                           "/kollet-guests-" + id,
		"/machine.slice/libpod-" + id + ".scope/payload": "/machine.slice/libpod-" + id + ".scope",
		"/machine.slice/libpod-conmon-" + id + ".scope":  "",
		"/docker/" + other:                               "",
		"/docker/" + id + "0":                            "",
		"/docker-" + id + "-a/b":                         "",
		"/":                                              "",
	} {
		if got := cgroupNamed(path, id); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := cgroupNamed("/docker/"+id, ""); got != "" {
		t.Errorf("a container without an id: %q", got)
	}
}

func TestOutside(t *testing.T) {
	id := strings.Repeat("a1", 32)
	for name, c := range map[string]struct {
		cgroup string
		want   bool
	}{
		"in it":                       {"2:cpu:/docker/" + id + "\n1:name=systemd:/\n", false},
		"below it":                    {"2:cpu:/docker/" + id + "/machine/one\n0::/\n", false},
		"in its scope":                {"0::/system.slice/docker-" + id + ".scope\n", false},
		"in another":                  {"2:cpu:/docker/" + strings.Repeat("b2", 32) + "\n0::/\n", true},
		"of the host":                 {"2:cpu:/\n1:name=systemd:/system.slice/ssh.service\n0::/\n", true},
		"of the host, v2":             {"0::/system.slice/ssh.service\n", true},
		"at the root, v2":             {"0::/\n", true},
		"at the root, or exits":       {"2:cpu:/\n1:name=systemd:/\n", false},
		"exits, only v2 says from it": {"2:cpu:/\n0::/system.slice/containerd.service\n", false},
		"gone":                        {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseMembership(c.cgroup).outside(id); got != c.want {
				t.Errorf("outside is %v, want %v", got, c.want)
			}
		})
	}
}
