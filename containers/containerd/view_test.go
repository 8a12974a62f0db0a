package containerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

func TestViewOfUsers(t *testing.T) {
	bind := func(source, at string) specs.Mount {
		return specs.Mount{Type: "bind", Source: source, Destination: at, Options: []string{"rbind"}}
	}
	for _, c := range []struct {
		name    string
		links   map[string]string // in root, data, and host, which is not in the container
		mounts  []specs.Mount
		refused string
	}{
		{"none", nil, nil, ""},
		{"outside", map[string]string{"root/etc/passwd": "HOST/fifo"}, nil, ""},
		{"upwards", map[string]string{"root/etc/passwd": "../../../../../../HOST/fifo"}, nil, ""},
		{"without the volume", map[string]string{"root/etc/passwd": "/data/fifo"}, nil, ""},
		{"in a volume", map[string]string{"root/etc/passwd": "/data/fifo"}, []specs.Mount{bind("data", "/data")}, "/etc/passwd is a FIFO"},
		{"regular file in a volume", map[string]string{"root/etc/passwd": "/data/file"}, []specs.Mount{bind("data", "/data")}, ""},
		{"link in a volume to the outside", map[string]string{"root/etc/passwd": "/data/link", "data/link": "HOST/fifo"}, []specs.Mount{bind("data", "/data")}, ""},
		{"link in a volume into the container", map[string]string{"root/etc/group": "/data/link", "data/link": "../run/pipe"}, []specs.Mount{bind("data", "/data")}, "/etc/group is a FIFO"},
		{"volume at etc", map[string]string{"data/passwd": "fifo"}, []specs.Mount{bind("data", "/etc")}, "/etc/passwd is a FIFO"},
		{"volume at a link", map[string]string{"root/var/run": "/run", "root/etc/passwd": "/run/data/fifo"}, []specs.Mount{bind("data", "/var/run/data")}, "/etc/passwd is a FIFO"},
		{"file as a volume", nil, []specs.Mount{bind("data/fifo", "/etc/passwd")}, "/etc/passwd is a FIFO"},
		{"file over a file as a volume", nil, []specs.Mount{bind("data/fifo", "/etc/passwd"), bind("data/file", "/etc/passwd")}, ""},
		{"hidden by a volume", map[string]string{"data/passwd": "fifo"}, []specs.Mount{bind("data", "/etc"), bind("empty", "/etc")}, ""},
		{"below a hidden volume", nil, []specs.Mount{bind("data/fifo", "/etc/passwd"), bind("empty", "/etc")}, ""},
		{"hidden by a tmpfs", map[string]string{"root/etc/passwd": "/run/pipe"}, []specs.Mount{{Type: "tmpfs", Destination: "/run"}}, ""},
		{"copied to a tmpfs", map[string]string{"root/etc/passwd": "/run/pipe"}, []specs.Mount{{Type: "tmpfs", Destination: "/run", Options: []string{"tmpcopyup"}}}, "/etc/passwd is a FIFO"},
		{"a name that begins like a volume", map[string]string{"root/etc/passwd": "/data2/fifo"}, []specs.Mount{bind("data", "/data")}, ""},
		{"root as a volume", map[string]string{"data/etc/passwd": "../fifo"}, []specs.Mount{bind("data", "/")}, "/etc/passwd is a FIFO"},
		{"proc of the host", map[string]string{"root/etc/passwd": "/host/kmsg"}, []specs.Mount{bind("/proc", "/host")}, "/etc/passwd is no regular file"},
		{"links without end", map[string]string{"root/etc/passwd": "group", "root/etc/group": "passwd"}, nil, ""},
		{"source that is gone", map[string]string{"root/etc/passwd": "/data/fifo"}, []specs.Mount{bind("gone", "/data")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/var/tmp", "kollet-") //nolint:usetesting // $TMPDIR may be below /dev, where no list may be
			check(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			for _, sub := range []string{"root/etc", "root/run", "root/var", "data/etc", "host", "empty"} {
				check(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
			}
			for _, fifo := range []string{"root/run/pipe", "data/fifo", "host/fifo"} {
				check(t, unix.Mkfifo(filepath.Join(dir, fifo), 0o600))
			}
			check(t, os.WriteFile(filepath.Join(dir, "data/file"), nil, 0o600))
			for link, target := range c.links {
				check(t, os.Symlink(strings.ReplaceAll(target, "HOST", dir+"/host"), filepath.Join(dir, link)))
			}
			for i, m := range c.mounts {
				if m.Type == "bind" && !filepath.IsAbs(m.Source) {
					c.mounts[i].Source = filepath.Join(dir, m.Source)
				}
			}
			err = viewOf(filepath.Join(dir, "root"), c.mounts).checkUsers()
			if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("checkUsers: %v, want %q", err, c.refused)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
