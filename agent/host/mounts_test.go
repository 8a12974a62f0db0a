package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeMounts is a host with the mount table of one process, a number or "self".
func fakeMounts(t testing.TB, process, table string) Host {
	t.Helper()
	proc := t.TempDir()
	err := os.Mkdir(filepath.Join(proc, process), 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(proc, process, "mountinfo"), []byte(table), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Host{Proc: proc}
}

func TestMountOf(t *testing.T) {
	h := fakeMounts(t, "self", `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:20 / /run rw,nosuid - tmpfs run rw
31 30 0:21 / /run/lock rw shared:7 master:3 - tmpfs run rw
32 22 0:22 / /dev rw master:4 propagate_from:2 - devtmpfs dev rw
33 22 0:23 / /srv rw shared:8 - ext4 /dev/sdb rw
34 33 0:24 / /srv rw - ext4 /dev/sdc rw
35 22 0:25 / /with\040blank\134 rw shared:9 - ext4 shared:no rw
36 22 0:26 / /named rw - ext4 shared:1 rw
37 22 0:27 / /nosource rw - ext4  rw
`)
	for path, want := range map[string]Mount{
		"/":               {"/", true, false},
		"/var/lib":        {"/", true, false},
		"/run":            {"/run", false, false},
		"/run/":           {"/run", false, false},
		"/run/libvirt":    {"/run", false, false},
		"/running":        {"/", true, false},
		"/run/lock":       {"/run/lock", true, true},
		"/run/lock/a/b":   {"/run/lock", true, true},
		"/run/locks":      {"/run", false, false},
		"/dev/kvm":        {"/dev", false, true},
		"/srv/a":          {"/srv", false, false}, // the mount on top
		`/with blank\/x`:  {`/with blank\`, true, false},
		"/with":           {"/", true, false},
		"/named":          {"/named", false, false},
		"/nosource/below": {"/nosource", false, false},
		"/..data":         {"/", true, false},
	} {
		if got, err := h.MountOf(path); err != nil || got != want {
			t.Errorf("%s is on %+v, want %+v (%v)", path, got, want, err)
		}
	}
	if got, err := fakeMounts(t, "self", "").MountOf("/x"); err != nil || got != (Mount{}) {
		t.Errorf("without mounts: %+v, %v", got, err)
	}
	if _, err := fakeMounts(t, "self", "short line\n").MountOf("/x"); err == nil {
		t.Error("no error for a broken line")
	}
	if _, err := (Host{Proc: t.TempDir()}).MountOf("/x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without /proc: %v", err)
	}
}

func TestMountedAt(t *testing.T) {
	h := fakeMounts(t, "7", `100 99 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/l
101 100 8:1 /lib/kollet/generations/000002/old/gate /.kollet/gate rw - ext4 /dev/sda1 rw
102 100 8:1 /a\040b/000003/nova-libvirt/gate//deleted /.kollet/gate rw,relatime shared:5 - ext4 /dev/sda1 rw
103 100 8:1 /x /with\040blank\011tab\012end\134back rw - ext4 /dev/sda1 rw
105 100 8:1 /y /ends\040 rw - ext4 /dev/sda1 rw
104 100 8:1 /.kollet/gate /mnt rw - ext4 /dev/sda1 rw
`)
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
		origin := Origin{8, 1, want}
		switch want {
		case "":
			origin = Origin{}
		case "/":
			origin = Origin{0, 50, want}
		}
		if got, err := h.MountedAt(7, target); err != nil || got != origin {
			t.Errorf("%s: %v, %v", target, got, err)
		}
	}
	if _, err := h.MountedAt(8, "/"); !errors.Is(err, ErrExited) || !Gone(err) {
		t.Errorf("a process that does not exist: %v", err)
	}
}

func TestOriginOf(t *testing.T) {
	h := fakeMounts(t, "self", `20 1 8:0 / / rw - ext4 /dev/sda rw
21 20 8:1 /vol /var/lib rw - ext4 /dev/sda1 rw
22 21 8:2 / /var/lib/kollet rw - ext4 /dev/sda2 rw
23 22 8:3 / /var/lib/kollet rw - ext4 /dev/sda3 rw
24 20 8:4 / /var/lib/kol rw - ext4 /dev/sda4 rw
`)
	for path, want := range map[string]Origin{
		"/etc":                 {8, 0, "/etc"},
		"/var/lib":             {8, 1, "/vol"},
		"/var/lib/other/x":     {8, 1, "/vol/other/x"},
		"/var/lib/kollet/a/b":  {8, 3, "/a/b"}, // the one on top
		"/var/lib/kollet":      {8, 3, "/"},
		"/var/lib/kollet-2/a/": {8, 1, "/vol/kollet-2/a"},
	} {
		if got, err := h.OriginOf(path); err != nil || got != want {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	if got, err := fakeMounts(t, "self", "").OriginOf("/x"); err != nil || got != (Origin{}) {
		t.Errorf("without mounts: %v, %v", got, err)
	}
	if _, err := (Host{Proc: t.TempDir()}).OriginOf("/x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without /proc: %v", err)
	}
	// Both ends of a real bind mount.
	dir, at := t.TempDir(), t.TempDir()
	if err := unix.Mount(dir, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, 0) })
	ours, err := Real().OriginOf(dir)
	theirs, err2 := Real().MountedAt(os.Getpid(), at)
	if err != nil || err2 != nil || ours != theirs || ours.Path == "" {
		t.Errorf("a bind mount of %v (%v) is %v (%v)", ours, err, theirs, err2)
	}
}

// The kernel lists a mount that cannot be reached any longer, because something was mounted above
// it, with the path that it had.
func TestHiddenMounts(t *testing.T) {
	lib := t.TempDir() + "/lib"
	kollet := lib + "/kollet"
	for _, at := range []string{kollet, lib} {
		if err := errors.Join(os.MkdirAll(at, 0o755), unix.Mount("none", at, "tmpfs", 0, "")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	if err := os.MkdirAll(kollet+"/gate", 0o755); err != nil {
		t.Fatal(err)
	}
	if at, err := Real().MountOf(kollet); err != nil || at.Point != lib {
		t.Errorf("%s is on %+v (%v)", kollet, at, err)
	}
	if got, err := Real().MountedAt(os.Getpid(), kollet); err != nil || got != (Origin{}) {
		t.Errorf("%v is mounted there (%v)", got, err)
	}
	own, err := Real().OriginOf(kollet + "/gate")
	if err != nil || own.Path != "/kollet/gate" {
		t.Errorf("it is %v (%v)", own, err)
	}
	at := t.TempDir()
	if err := unix.Mount(kollet+"/gate", at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, 0) })
	if got, err := Real().MountedAt(os.Getpid(), at); err != nil || got != own {
		t.Errorf("got %v (%v), want %v", got, err, own)
	}
}

// A user can move a directory in which he has something mounted by FUSE.
func TestMountsWithLongPaths(t *testing.T) {
	const before, after = "20 1 8:1 / / rw - ext4 a rw\n", "22 20 8:2 /x /srv rw - ext4 b rw\n"
	const fixed = "21 20 0:50 / / rw - fuse c rw\n"
	for length := 64<<10 - len(fixed) - 20; length < 64<<10+20; length++ {
		h := fakeMounts(t, "self", before+strings.Replace(fixed, " / rw", " /"+strings.Repeat("d", length)+" rw", 1)+after)
		if at, err := h.MountOf("/srv/a"); err != nil || at.Point != "/srv" {
			t.Fatalf("with a path of %d bytes: %+v (%v)", length, at, err)
		}
	}
	for _, length := range []int{128 << 10, 1 << 20} {
		h := fakeMounts(t, "self", before+strings.Replace(fixed, " / rw", " /"+strings.Repeat("d", length)+" rw", 1)+after)
		if at, err := h.MountOf("/srv/a"); err != nil || at.Point != "/srv" {
			t.Errorf("with a path of %d bytes: %+v (%v)", length, at, err)
		}
	}
}

// Opening the mounts of a zombie fails with EINVAL.
func TestMountedAtOfZombie(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	h, pid := Real(), cmd.Process.Pid
	for deadline := time.Now().Add(30 * time.Second); !exited(h.ProcessPath(pid, "")); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the process does not exit")
		}
	}
	if _, err := os.ReadFile(h.ProcessPath(pid, "mountinfo")); err == nil {
		t.Fatal("a zombie has mounts: the kernel has changed")
	}
	if _, err := h.MountedAt(pid, "/"); !errors.Is(err, ErrExited) {
		t.Errorf("%v", err)
	}
}

// FuzzMounts: no mount table makes a lookup panic or invent a path.
func FuzzMounts(f *testing.F) {
	f.Add("22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n30 22 0:20 / /run\\040x rw - tmpfs run rw\n", "/run x/y")
	f.Add("32 31 0:29 / /u rw - cgroup2 cgroup2 rw\n33 31 0:30 / /v rw - cgroup cgroup rw,cpu\n", "/u")
	f.Add(`1 2 3:4 /a\0 /\777\ rw - cgroup c r`, `/\777\`)
	f.Add("1 2 8:1 / / rw - ext4 a rw\n2 1 8:1 / / rw - ext4 a rw\n3 3 8:1 / / rw - ext4 a rw\n", "/a")
	f.Add("0 1 8:1 / / rw - ext4 a rw\n1 0 8:1 / / rw - ext4 a rw\n4 0 8:1 / / rw - ext4 a rw\n", "/a")
	f.Fuzz(func(t *testing.T, table, path string) {
		h := fakeMounts(t, "1", table)
		if err := os.Symlink("1", filepath.Join(h.Proc, "self")); err != nil {
			t.Fatal(err)
		}
		if at, _ := h.MountOf(path); at.Point == "" && (at.Shared || at.Slave) {
			t.Error("no mount is shared")
		}
		if at, _ := h.MountedAt(1, path); len(at.Path) > len(table) {
			t.Errorf("%q", at.Path)
		}
		mounts, _ := h.hierarchies()
		for name, at := range mounts {
			if len(fmt.Sprint(name, at)) > len(table) {
				t.Errorf("%q is mounted at %q", name, at)
			}
		}
	})
}
