package guest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestParseCmdline(t *testing.T) {
	const id = "11111111-2222-3333-4444-555555555555"
	for name, c := range map[string]struct {
		args []string
		name string // empty: no guest
		uuid string
	}{
		"libvirt 9":     {[]string{"/usr/bin/qemu-system-x86_64", "-name", "guest=instance-00000001,debug-threads=on", "-S", "-object", "{}", "-uuid", id, "-no-user-config"}, "instance-00000001", id},
		"RHEL":          {[]string{"/usr/libexec/qemu-kvm", "-name", "guest=a,process=qemu:a,debug-threads=on", "-uuid", id}, "a", id},
		"kvm":           {[]string{"kvm", "-name", "a", "-uuid", id}, "a", id},
		"old form":      {[]string{"/usr/bin/qemu-system-arm", "-uuid", id, "-name", "a,debug-threads=on"}, "a", id},
		"later":         {[]string{"qemu-system-x86_64", "-name", "debug-threads=on,guest=a", "-uuid", id}, "a", id},
		"commas":        {[]string{"qemu-system-x86_64", "-name", "guest=a,,b,,,,c,,,debug-threads=on", "-uuid", id}, "a,b,,c,", id},
		"a name's word": {[]string{"qemu-system-x86_64", "-name", "guest=x,,guest=y,debug-threads=on", "-uuid", id}, "x,guest=y", id},
		"not ASCII":     {[]string{"qemu-system-x86_64", "-name", "guest=gäst 1,debug-threads=on", "-uuid", id}, "gäst 1", id},
		// The owner of a guest chooses its kernel's command line (os_command_line).
		"owner's words":   {[]string{"qemu-system-x86_64", "-name", "guest=a", "-uuid", id, "-append", "-uuid", "-name", "guest=b", "-device", "x"}, "a", id},
		"another program": {[]string{"/usr/sbin/libvirtd", "-name", "guest=a", "-uuid", id}, "", ""},
		"its arguments":   {[]string{"less", "qemu-system-x86_64", "-name", "guest=a", "-uuid", id}, "", ""},
		"qemu-img":        {[]string{"qemu-img", "-name", "guest=a", "-uuid", id}, "", ""},
		"only asked":      {[]string{"/usr/bin/qemu-system-x86_64", "-S", "-no-user-config", "-nodefaults", "-machine", "none"}, "", ""},
		"no uuid":         {[]string{"qemu-system-x86_64", "-name", "guest=a"}, "", ""},
		"no value":        {[]string{"qemu-system-x86_64", "-uuid", id, "-name"}, "", ""},
		"no arguments":    {[]string{"qemu-system-x86_64"}, "", ""},
		"empty arguments": {[]string{"qemu-system-x86_64", "", "-name", "", "-uuid", ""}, "", ""},
		"kernel thread":   {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cmdline := strings.Join(c.args, "\x00")
			for _, end := range []string{"", "\x00"} {
				name, uuid, ok := parseCmdline([]byte(cmdline + end))
				if ok != (c.name != "") || ok && (name != c.name || uuid != c.uuid) {
					t.Errorf("got %q, %q, %v", name, uuid, ok)
				}
			}
		})
	}
}

func FuzzParseCmdline(f *testing.F) {
	f.Add("qemu-system-x86_64\x00-name\x00guest=a,,b,x=y\x00-uuid\x00u\x00")
	f.Add("\x00\x00")
	f.Fuzz(func(t *testing.T, cmdline string) {
		name, uuid, ok := parseCmdline([]byte(cmdline))
		if ok && (name == "" || uuid == "" || strings.Contains(name+uuid, "\x00") || len(name)+len(uuid) > len(cmdline)) {
			t.Errorf("%q is %q, %q", cmdline, name, uuid)
		}
	})
}

// FuzzGuestName: what libvirt writes is read again (virQEMUBuildBufferEscapeComma).
func FuzzGuestName(f *testing.F) {
	for _, name := range []string{"a", "a,b", ",", ",,", "guest=", "a=b,guest=c"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if strings.Contains(name, "\x00") {
			return // no argument of a program has one
		}
		option := "guest=" + strings.ReplaceAll(name, ",", ",,") + ",debug-threads=on"
		if got := guestName(option); got != name {
			t.Errorf("%q is read as %q", option, got)
		}
	})
}

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

const mountinfo = `100 99 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/l
101 100 8:1 /lib/kollet/generations/000002/old/gate /.kollet/gate rw - ext4 /dev/sda1 rw
102 100 8:1 /a\040b/000003/nova-libvirt/gate//deleted /.kollet/gate rw,relatime shared:5 - ext4 /dev/sda1 rw
103 100 8:1 /x /with\040blank\011tab\012end\134back rw - ext4 /dev/sda1 rw
105 100 8:1 /y /ends\040 rw - ext4 /dev/sda1 rw
104 100 8:1 /.kollet/gate /mnt rw - ext4 /dev/sda1 rw
short line
`

func TestMountRoot(t *testing.T) {
	for target, want := range map[string]string{
		"/.kollet/gate":                 "/a b/000003/nova-libvirt/gate//deleted", // the one on top
		"/":                             "/",
		"/with blank\ttab\nend\\back":   "/x",
		"/ends ":                        "/y",
		"/mnt":                          "/.kollet/gate",
		"/with\\040blank":               "",
		"/.kollet":                      "",
		"/lib/kollet/generations/00000": "",
	} {
		if got, ok := mountRoot(mountinfo, target); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", target, got, ok)
		}
	}
}

func TestHierarchies(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]string // of those that are asked for
	}{
		"hybrid": {`31 23 0:28 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
32 31 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
33 31 0:30 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup rw,xattr,name=systemd
34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 master:2 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/abc /mnt/pids rw - cgroup cgroup rw,pids
36 31 0:33 / /sys/fs/cgroup/with\040blank rw - cgroup cgroup rw,memory
`, map[string]string{"": "/sys/fs/cgroup/unified", "name=systemd": "/sys/fs/cgroup/systemd", "cpu,cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct,cpu": "/sys/fs/cgroup/cpu,cpuacct", "pids": "", "memory": "/sys/fs/cgroup/with blank"}},
		"version 2": {"31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", map[string]string{"": "/sys/fs/cgroup", "memory": "", "name=systemd": ""}},
		"none":      {"1 0 8:1 / / rw - ext4 /dev/sda1 rw\nbroken - cgroup\n1 2 3 / /x rw cgroup2\n", map[string]string{"": "", "cpu": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			container := Container{mounts: hierarchies(c.text)}
			for controllers, want := range c.want {
				if got, ok := container.mount(controllers); got != want || ok != (want != "") {
					t.Errorf("%q: %q, %v", controllers, got, ok)
				}
			}
		})
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add(mountinfo, "/.kollet/gate")
	f.Add("32 31 0:29 / /u rw - cgroup2 cgroup2 rw\n33 31 0:30 / /v rw - cgroup cgroup rw,cpu\n", "/u")
	f.Add(`1 2 3 /a\0 /\777\ rw - cgroup c r`, `/\777\`)
	f.Fuzz(func(t *testing.T, text, target string) {
		if root, ok := mountRoot(text, target); !ok && root != "" || len(root) > len(text) {
			t.Errorf("%q, %v", root, ok)
		}
		for name, at := range hierarchies(text) {
			if len(name)+len(at) > len(text) {
				t.Errorf("%q is mounted at %q", name, at)
			}
		}
	})
}

// FuzzUnescape: what the kernel escapes (mangle_path, fs/seq_file.c) is undone.
func FuzzUnescape(f *testing.F) {
	f.Add("a b\tc\nd\\e")
	f.Add(`\040`)
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
	f.Fuzz(func(t *testing.T, path string) {
		if got := unescape(escape.Replace(path)); got != path {
			t.Errorf("%q became %q", path, got)
		}
		if got := unescape(path); len(got) > len(path) {
			t.Errorf("%q grew to %q", path, got)
		}
	})
}

func TestParseMembership(t *testing.T) {
	got := parseMembership("12:pids:/docker/abc\n3:cpu,cpuacct:/\n1:name=systemd:/a:b\n0::/machine/x (deleted)\nbroken\n4:x\n")
	want := membership{"pids": "/docker/abc", "cpu,cpuacct": "/", "name=systemd": "/a:b", "": "/machine/x (deleted)"}
	if !maps.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestInside(t *testing.T) {
	container := membership{"pids": "/docker/abc", "cpu": "/docker/abc", "memory": "/", "": "/system.slice/docker-abc.scope"}
	for name, c := range map[string]struct {
		process membership
		want    []string
	}{
		"the container itself": {container, []string{"", "cpu", "pids"}},
		"below it":             {membership{"pids": "/docker/abc/libvirt/a", "cpu": "/machine/a", "": "/system.slice/docker-abc.scope/x"}, []string{"", "pids"}},
		"a longer name":        {membership{"pids": "/docker/abcd", "cpu": "/docker/abc-2/x", "": "/system.slice/docker-abc.scope2"}, nil},
		"above it":             {membership{"pids": "/docker", "cpu": "/", "memory": "/", "": "/system.slice"}, nil},
		"root is nobody's":     {membership{"memory": "/"}, nil},
		"in another hierarchy": {membership{"blkio": "/docker/abc"}, nil},
		"nowhere":              {membership{}, nil},
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
