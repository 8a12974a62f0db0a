package machine

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// runInit is pid 1 of the machine: it prepares the machine, starts the program again as
// its child, and reaps orphans. When its process exits, the kernel kills every remaining
// process.
func runInit() (status int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	if err := prepare(os.Getenv(dirVar), os.Getenv(netVar) == "host"); err != nil {
		return 0, err
	}
	os.Setenv(stageVar, stageInside)
	os.Setenv("TMPDIR", filepath.Join(os.Getenv(dirVar), "tmp"))
	pid, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return 0, fmt.Errorf("start the program inside: %w", err)
	}
	go func() {
		for s := range signals {
			syscall.Kill(pid, s.(syscall.Signal))
		}
	}()
	for {
		var how syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &how, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for the program inside: %w", err)
		case ended == pid:
			thaw()
			return exitStatus(how), nil
		}
	}
}

// fithaw thaws a file system (FITHAW in linux/fs.h; fsfreeze(8)).
const fithaw = 0xc0045878

// thaw thaws the file systems that a program froze, on loop devices, and could not thaw
// because it was killed. The kernel ends a machine when its last process has exited, and a
// process that waits for such a file system does not exit.
func thaw() {
	mounts, _ := mountinfo.GetMounts(nil) // the program may have left nothing
	for _, m := range mounts {
		if !strings.HasPrefix(m.Source, "/dev/loop") {
			continue
		}
		if dir, err := os.Open(m.Mountpoint); err == nil {
			_ = unix.IoctlSetInt(int(dir.Fd()), fithaw, 0) // usually it is not frozen
			dir.Close()
		}
	}
}

// prepare sets up the machine's own file systems and loopback device.
func prepare(dir string, hostNetwork bool) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := ordinaryKVM(dir); err != nil {
		return err
	}
	resolv, resolvErr := os.ReadFile("/etc/resolv.conf") // often a link into /run
	// With two mounts at /run, Docker checks whether the lower one is shared:
	// getSourceMount in daemon/oci_linux.go.
	for unix.Unmount("/run", unix.MNT_DETACH) == nil {
	}
	if err := unix.Mount("run", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if err := os.Mkdir("/run/lock", 0o1777); err != nil {
		return err
	}
	for _, path := range overlaid {
		if err := disposable(dir, path); err != nil {
			return err
		}
	}
	if hostNetwork {
		return keepResolver(resolv, resolvErr)
	}
	if err := onlyCgroupV1(); err != nil {
		return err
	}
	if err := remountSys(); err != nil {
		return err
	}
	return loopbackUp()
}

// overlaid are the directories whose changes are discarded with the machine.
var overlaid = []string{"/etc", "/var/lib", "/var/log"}

// Discarded reports whether a file in a directory is gone when the machine ends.
func Discarded(dir string) bool {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		dir = path
	}
	return slices.ContainsFunc(append([]string{"/run", os.Getenv(dirVar)}, overlaid...), func(path string) bool {
		return dir == path || strings.HasPrefix(dir, path+"/")
	})
}

// ordinaryKVM gives /dev/kvm, if it exists, the owner and mode that it has on a node
// (udev's 50-udev-default.rules). If only root can access it, libvirt finds that QEMU can
// use it as root but not as the guests' user, does not trust its cache, and starts every
// QEMU program again for each query, which takes seconds.
func ordinaryKVM(dir string) error {
	const path = "/dev/kvm"
	var there unix.Stat_t
	if err := unix.Stat(path, &there); err != nil || there.Mode&unix.S_IFMT != unix.S_IFCHR {
		return nil
	}
	own := filepath.Join(dir, "dev") // devices work on a file system that allows them
	if err := os.Mkdir(own, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("dev", own, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755"); err != nil {
		return fmt.Errorf("mount a file system for devices: %w", err)
	}
	device := filepath.Join(own, "kvm")
	if err := unix.Mknod(device, unix.S_IFCHR|0o660, int(there.Rdev)); err != nil {
		return fmt.Errorf("make %s: %w", device, err)
	}
	if err := errors.Join(os.Chown(device, 0, kvmGroup), os.Chmod(device, 0o660)); err != nil {
		return err
	}
	if err := unix.Mount(device, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount a device over %s: %w", path, err)
	}
	return nil
}

// kvmGroup is any group other than root. The number of the group kvm differs between
// Debian machines.
const kvmGroup = 993

// disposable mounts an overlay over a directory, so that changes are discarded with the
// machine.
func disposable(dir, path string) error {
	layer := filepath.Join(dir, strings.ReplaceAll(path[1:], "/", "-"))
	for _, d := range []string{layer + "/new", layer + "/work"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/new,workdir=%s/work", path, layer, layer)
	if err := unix.Mount("overlay", path, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount an overlay over %s, with its data in %s: %w; set TMPDIR to a directory on a disk", path, dir, err)
	}
	return nil
}

// keepResolver restores /etc/resolv.conf as a file.
func keepResolver(content []byte, err error) error {
	if err != nil {
		return nil // it did not exist
	}
	if err := os.Remove("/etc/resolv.conf"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("keep the name resolver's configuration: %w", err)
	}
	return os.WriteFile("/etc/resolv.conf", content, 0o644)
}

// remountSys mounts a /sys that shows the network devices of the new network namespace:
// sysfs(5) shows those of the namespace in which it was mounted. Mounts below the old
// /sys, mainly the cgroup hierarchies, are moved.
func remountSys() error {
	below, err := mountsBelow("/sys")
	if err != nil {
		return err
	}
	return remount("/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, below)
}

// onlyCgroupV1 hides the cgroup v2 hierarchy from the machine if a variable says so. crun
// refuses one that is beside those of version 1 and has a controller.
func onlyCgroupV1() error {
	if os.Getenv(cgroupsVar) != "v1" {
		return nil
	}
	mounted, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return err
	}
	isFirst := func(m *mountinfo.Info) bool { return m.FSType == "cgroup" }
	if !slices.ContainsFunc(mounted, isFirst) {
		return nil // the second is alone
	}
	var first []string
	for _, m := range mounted {
		if isFirst(m) {
			first = append(first, m.Mountpoint)
		} else if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", m.Mountpoint, err)
		}
	}
	// crun also looks for the directory.
	return remount("/sys/fs/cgroup", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, first)
}

// remount mounts a new file system over a directory, and keeps some of the mounts below it.
func remount(dir, fstype string, flags uintptr, below []string) error {
	const old = "/run/.old"
	if err := os.Mkdir(old, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(dir, old, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep the old %s: %w", dir, err)
	}
	if err := unix.Mount(fstype, dir, fstype, flags, ""); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	for _, path := range below {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
		from := old + strings.TrimPrefix(path, dir)
		if err := unix.Mount(from, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
	}
	if err := unix.Unmount(old, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old %s: %w", dir, err)
	}
	return os.Remove(old)
}

// loopbackUp does what "ip link set lo up" does: netdevice(7), SIOCSIFFLAGS.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("enable the loopback device: %w", err)
	}
	return nil
}
