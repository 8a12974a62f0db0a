package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Disk is a disk whose writes are logged in the order in which the disk gets them, with its
// flushes. It has two file systems, because what syncs one of them, as the kernel does with
// that below an overlay, must not hide that something else on it is not synced. They are on
// loop devices on a file that QEMU exports by FUSE.
type Disk struct {
	Parts [2]string // where the file systems are mounted
	Log   string    // QEMU's log; package disklog reads it
	Blank string    // an image of the disk as it was before the first write in the log
	Raw   string    // the image to which the writes in the log went

	t      TB
	export string
	d      *daemon
}

const (
	partSize = 640 << 20 // with less, kollet says that too little is free
	diskSize = 2 * partSize
)

// NewDisk mounts an empty disk, whose writes are logged. When the test ends, it is removed.
func NewDisk(t TB) *Disk {
	t.Helper()
	dir := Dir(t, "disk")
	d := &Disk{Parts: [2]string{dir + "/1", dir + "/2"}, Log: dir + "/log", Blank: dir + "/blank", Raw: dir + "/raw", t: t, export: dir + "/export"}
	run := func(name string, args ...string) {
		if out, err := exec.Command(program(t, name), args...).CombinedOutput(); err != nil {
			t.Fatalf("make a disk: %v\n%s", err, out)
		}
	}
	for path, size := range map[string]int64{d.Raw: diskSize, d.Log: 0, d.export: 0} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatalf("make a disk: %v", err)
		}
	}
	for i, part := range d.Parts {
		if err := os.Mkdir(part, 0o755); err != nil {
			t.Fatalf("make a disk: %v", err)
		}
		run("mkfs.ext4", "-q", "-b", "4096", "-J", "size=8", "-N", "8192",
			"-E", fmt.Sprintf("lazy_itable_init=0,lazy_journal_init=0,offset=%d", i*partSize), d.Raw, fmt.Sprint(partSize>>10)+"k")
	}
	run("cp", "--sparse=always", d.Raw, d.Blank)
	storage := program(t, "qemu-storage-daemon")
	d.d = &daemon{
		t: t, name: "qemu-storage-daemon", log: dir + "/qemu.log",
		make: func() *exec.Cmd {
			return exec.Command(storage,
				"--blockdev", "driver=file,node-name=raw,filename="+d.Raw,
				"--blockdev", "driver=file,node-name=log,filename="+d.Log,
				"--blockdev", "driver=blklogwrites,node-name=logged,file=raw,log=log,log-sector-size=512",
				"--export", "type=fuse,id=export,node-name=logged,writable=on,mountpoint="+d.export)
		},
		probe: func(context.Context) error {
			info, err := os.Stat(d.export)
			if err == nil && info.Size() != diskSize {
				err = errors.New("nothing is exported")
			}
			return err
		},
	}
	t.Cleanup(func() { d.d.end(syscall.SIGKILL) })
	t.Cleanup(d.Unmount)
	d.d.tellOnFailure()
	d.d.start()
	d.Mount(d.export)
	return d
}

// Mount mounts an image of the disk. Unless they were unmounted, the file systems read their
// journals first, as after a power loss.
func (d *Disk) Mount(image string) {
	d.t.Helper()
	// The kernel removes the loop devices with the mounts. They must not use direct I/O, with
	// which some of what is written to QEMU's export arrives damaged (seen with Linux 6.18).
	// Without it, too, each write is exported before the next, and each flush is a flush.
	for i, part := range d.Parts {
		options := fmt.Sprintf("loop,offset=%d,sizelimit=%d", i*partSize, partSize)
		if out, err := exec.Command("mount", "-t", "ext4", "-o", options, image, part).CombinedOutput(); err != nil {
			d.t.Fatalf("mount %s: %v\n%s", image, err, out)
		}
	}
}

// Unmount unmounts the disk with everything below it. Nothing may use it.
func (d *Disk) Unmount() {
	d.t.Helper()
	for _, part := range d.Parts {
		if err := unmount(part); err != nil {
			d.t.Fatalf("%v", err)
		}
	}
}

// unmount unmounts what is mounted at and below a directory, last things first. What a
// killed process has open is closed soon.
func unmount(dir string) error {
	var busy error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		all, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
		if err != nil || len(all) == 0 {
			return err
		}
		for _, m := range slices.Backward(all) {
			if busy = unix.Unmount(m.Mountpoint, 0); busy != nil {
				busy = fmt.Errorf("unmount %s: %w", m.Mountpoint, busy)
				break
			}
		}
		if busy == nil {
			return nil
		}
	}
	return busy
}

// Files returns a digest of everything that is in the disk's file systems except times.
func (d *Disk) Files() string {
	d.t.Helper()
	digest := sha256.New()
	cmd := exec.Command(program(d.t, "tar"), "--create", "--sort=name", "--numeric-owner", "--mtime=@0",
		"--format=posix", "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime", "--xattrs", "--xattrs-include=*",
		"--directory="+filepath.Dir(d.Parts[0]), filepath.Base(d.Parts[0]), filepath.Base(d.Parts[1]))
	cmd.Stdout = digest
	if err := cmd.Run(); err != nil {
		d.t.Fatalf("read what is on the disk: %v", err)
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// Stop ends the log. The disk must not be mounted.
func (d *Disk) Stop() {
	d.t.Helper()
	if err := unix.Unmount(d.export, 0); err != nil {
		d.t.Fatalf("unmount %s: %v", d.export, err)
	}
	d.d.end(syscall.SIGTERM)
}

// Sync writes what the disk's file systems have in memory.
func (d *Disk) Sync() {
	d.t.Helper()
	for _, part := range d.Parts {
		dir, err := os.Open(part)
		if err == nil {
			err = errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close())
		}
		if err != nil {
			d.t.Fatalf("write what is in memory of %s: %v", part, err)
		}
	}
}
