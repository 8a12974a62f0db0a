package guest

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	errNoProcess = unix.ESRCH
	errNoMounts  = unix.EINVAL // of a process that has ended and is not reaped, fs/proc_namespace.c in the kernel
)

// mountRoot returns which directory of its file system is mounted at target, by
// the last matching line of a mountinfo file (proc_pid_mountinfo(5)).
func mountRoot(mountinfo, target string) (root string, ok bool) {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) > 4 && unescape(fields[4]) == target {
			root, ok = unescape(fields[3]), true
		}
	}
	return root, ok
}

// hierarchies returns where each cgroup hierarchy is mounted: by controller, by
// "name=systemd" and the like, and by "" for the unified one.
func hierarchies(mountinfo string) map[string]string {
	mounts := map[string]string{}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 || unescape(left[3]) != "/" {
			continue
		}
		switch right[0] {
		case "cgroup2":
			mounts[""] = unescape(left[4])
		case "cgroup":
			for _, option := range strings.Split(right[2], ",") {
				mounts[option] = unescape(left[4])
			}
		}
	}
	return mounts
}

// unescape undoes the octal escapes of blanks in mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
