package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inOwnMounts runs do on a thread with mounts of its own, which end with it.
func inOwnMounts(t *testing.T, do func(bind func(from, to string), mounts func() mounts)) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			do(func(from, to string) {
				if e := unix.Mount(from, to, "", unix.MS_BIND, ""); e != nil && err == nil {
					err = e
				}
			}, func() mounts {
				data, e := os.ReadFile("/proc/thread-self/mountinfo")
				if e != nil && err == nil {
					err = e
				}
				return parseMounts(string(data))
			})
		}
		done <- err
	}()
	check(t, <-done)
}

func TestMountPointsAreWrittenInPlace(t *testing.T) {
	outside := t.TempDir()
	plant(t, outside, `0600 0:0 file = old
		0600 0:0 volume/guest.xml = a guest
		0600 0:0 volume/key = old`)
	root := t.TempDir()
	plant(t, root, `0600 0:0 s/f = new
		0600 0:0 s/d/key = new
		0600 0:0 etc/file
		0755 0:0 etc/d/
		0755 0:0 etc/tree/qemu/
		0600 0:0 etc/tree/old = old`)
	var inside string
	var failed error
	inOwnMounts(t, func(bind func(from, to string), mounts func() mounts) {
		bind(outside+"/file", root+"/etc/file")
		bind(outside+"/volume", root+"/etc/d")
		bind(outside+"/volume", root+"/etc/tree/qemu")
		a := applier{root: root, names: testNames, mounts: mounts()}
		failed = a.copyAll(config{copies: []rule{
			{where: "a file that is a mount point", source: "/s/f", dest: "/etc/file", owner: "root", perm: mode{0o640, true}},
			{where: "a directory that is one", source: "/s/d", dest: "/etc/d", owner: "root", perm: mode{0o640, true}},
			{where: "a directory that holds one", source: "/s/d", dest: "/etc/tree", owner: "root", perm: mode{0o640, true}},
		}})
		inside = harvest(t, filepath.Join(root, "etc"))
	})
	check(t, failed)
	want := trim(`0750 0:0 d/
		0600 0:0 d/guest.xml = a guest
		0640 0:0 d/key = new
		0640 0:0 file = new
		0750 0:0 tree/
		0640 0:0 tree/key = new
		0750 0:0 tree/qemu/
		0600 0:0 tree/qemu/guest.xml = a guest
		0640 0:0 tree/qemu/key = new`)
	if inside != want {
		t.Errorf("got\n%s\nwant\n%s", inside, want)
	}
	if got := harvest(t, outside); !strings.Contains(got, "0640 0:0 file = new") {
		t.Errorf("the mounted file was not written: %s", got)
	}
}

func TestReadOnlyRoot(t *testing.T) {
	outside := t.TempDir()
	root := t.TempDir()
	plant(t, root, `0600 0:0 var/lib/kolla/config_files/f = f
		0600 0:0 var/lib/kolla/config_files/config.json = `+copyConfig+`
		0755 0:0 etc/`)
	var failed error
	inOwnMounts(t, func(bind func(from, to string), _ func() mounts) {
		bind(root, root)
		bind(outside, root+"/etc")
		failed = unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		for range 2 { // at each start again: there is no marker
			if failed == nil {
				_, failed = configure(root, testNames)
			}
		}
	})
	check(t, failed)
	if got := harvest(t, outside); got != "0600 42436:42436 f = f" {
		t.Errorf("got %s", got)
	}
	if exists(filepath.Join(root, "configured")) {
		t.Error("the root was written to")
	}
}

func TestParseMounts(t *testing.T) {
	got := parseMounts("36 35 98:0 / /a\\040b\\134 rw,noatime master:1 - ext3 /dev/root rw\nshort\n")
	if len(got) != 1 || got[0] != `/a b\` {
		t.Errorf("got %q", got)
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add("36 35 98:0 / /a\\040b rw\n")
	f.Add("1 2 3 4 \\04\\999")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range parseMounts(text) {
			if m == "" {
				t.Error("an empty mount point")
			}
		}
	})
}
