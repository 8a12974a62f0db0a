package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

func TestParseTicks(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []int
		bad  bool
	}{
		"empty":         {text: ""},
		"count":         {text: "tick 1\r\ntick 2\r\n", want: []int{1, 2}},
		"other lines":   {text: "hello\ntick 7\nreboot: Power down\n", want: []int{7}},
		"partial":       {text: "tick 1\ntick 1", want: []int{1}},
		"no number":     {text: "tick 1\ntick x\n", bad: true},
		"torn in two":   {text: "tick 1tick 2\n", bad: true},
		"just the word": {text: "tick \n", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseTicks(c.text)
			if (err != nil) != c.bad || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestUnbroken(t *testing.T) {
	for _, c := range []struct {
		ticks []int
		want  string // in the error
	}{
		{nil, ""},
		{[]int{1, 2, 3}, ""},
		{[]int{2, 3}, "tick 2, expected 1"},
		{[]int{1, 3}, "tick 3, expected 2"},
		{[]int{1, 2, 2}, "tick 2, expected 3"},
		{[]int{1, 2, 1, 2}, "tick 1, expected 3"},
	} {
		err := Unbroken(c.ticks)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.ticks, err, c.want)
		}
	}
}

func TestTicksOfNoFile(t *testing.T) {
	if ticks, err := Ticks(filepath.Join(t.TempDir(), "none")); len(ticks) != 0 || err != nil {
		t.Errorf("got %v, %v", ticks, err)
	}
	if _, err := Ticks(t.TempDir()); err == nil {
		t.Error("no error for a directory")
	}
}

func FuzzParseTicks(f *testing.F) {
	f.Add("tick 1\r\ntick 2\n[ 1.0] x\ntick")
	f.Fuzz(func(t *testing.T, text string) {
		ticks, err := parseTicks(text)
		if err == nil && len(ticks) != strings.Count("\n"+text[:strings.LastIndex(text, "\n")+1], "\ntick ") {
			t.Errorf("%d ticks in %q", len(ticks), text)
		}
	})
}

func TestParseConnections(t *testing.T) {
	text := `[{"user":"openstack","name":"127.0.0.1:4711 -> 127.0.0.1:5672","state":"running","client_properties":[["product","longstr","Py"],["capabilities","table",[["a","bool",true]]],["connection_name","longstr","nova-compute:1:a"]]},
{"user":"u","name":"127.0.0.1:1 -> 127.0.0.1:5672","state":"tuning","client_properties":[]}]`
	got, err := parseConnections([]byte(text))
	want := []Connection{
		{User: "openstack", Name: "nova-compute:1:a", Product: "Py", Peer: "127.0.0.1:4711", State: "running"},
		{User: "u", Peer: "127.0.0.1:1", State: "tuning"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "{}", `[{"client_properties":[["product"]]}]`} {
		if _, err := parseConnections([]byte(bad)); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func FuzzParseConnections(f *testing.F) {
	f.Add([]byte(`[{"user":"u","client_properties":[["product","longstr","Py"]]}]`))
	f.Fuzz(func(t *testing.T, text []byte) { parseConnections(text) })
}

// The next machine removes what a killed machine left. Files with similar names, and
// mounted file systems, are kept.
func TestSweepDirs(t *testing.T) {
	temp := Dir(t, "temp")
	kept := Dir(t, "kept")
	old, alike := filepath.Join(temp, dirPrefix+"123"), filepath.Join(temp, "my-"+dirPrefix+"123")
	for _, dir := range []string{old + "/a/b", alike, old + "/mount"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(kept+"/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // one on top of the other
		if err := unix.Mount(kept, old+"/mount", "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweepDirs(temp); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Errorf("%s is left", old)
	}
	for _, path := range []string{alike, kept + "/file"} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// After a crash, the ids in pidfiles may belong to other processes.
func TestDockerStartsDespitePidfiles(t *testing.T) {
	e := Dockerd(t)
	e.Kill()
	for _, path := range []string{e.pidfile, filepath.Join(e.exec, "containerd/containerd.pid")} {
		if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e.Start()
}

// Cgroups that existed before, and cgroups in use, are kept.
func TestRemoveEmpty(t *testing.T) {
	root := filepath.Join("/sys/fs/cgroup/pids", CgroupParent())
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.procs"); err == nil { // v2
		root = filepath.Join("/sys/fs/cgroup", CgroupParent())
	}
	for _, dir := range []string{"/before/below", "/new/below", "/used/new"} {
		if err := os.MkdirAll(root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { removeGroup(root) })
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if err := os.WriteFile(root+"/used/cgroup.procs", []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if err := removeEmpty(root, []string{root, root + "/before"}); err != nil {
		t.Fatal(err)
	}
	left, err := withBelow(root)
	if want := []string{root, root + "/before", root + "/used"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %q, %v, want %q", left, err, want)
	}
	if err := removeGroup(root); err == nil {
		t.Error("no error for a cgroup in use")
	}
}

// On most machines /run is a mount, and Docker does not expect two there.
func TestRunIsMountedOnce(t *testing.T) {
	there, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return m.Mountpoint != "/run", false })
	if err != nil {
		t.Fatal(err)
	}
	if len(there) != 1 {
		t.Errorf("%d mounts at /run, want one", len(there))
	}
}

func TestKVMBelongsToAGroup(t *testing.T) {
	var there, outside unix.Stat_t
	if err := unix.Stat("/dev/kvm", &there); err != nil {
		t.Logf("no /dev/kvm here: %v", err)
		return
	}
	if there.Gid == 0 || there.Mode&0o777 != 0o660 || there.Mode&unix.S_IFMT != unix.S_IFCHR {
		t.Errorf("/dev/kvm has group %d, mode %o", there.Gid, there.Mode)
	}
	// It is mounted over the original, which is not changed.
	if err := unix.Stat("/dev/null", &outside); err != nil || outside.Dev == there.Dev {
		t.Errorf("/dev/kvm is on device %x as /dev/null is: %v", there.Dev, err)
	}
}
