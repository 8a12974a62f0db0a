package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mountsBelow lists where something is mounted below a directory, without what
// is mounted below that in turn.
func mountsBelow(dir string) ([]string, error) {
	all, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, err
	}
	var points []string
	for _, m := range all {
		if strings.HasPrefix(m.Mountpoint, dir+"/") {
			points = append(points, m.Mountpoint)
		}
	}
	slices.Sort(points) // a directory comes before what is below it
	var top []string
	for _, p := range points {
		if len(top) == 0 || p != top[len(top)-1] && !strings.HasPrefix(p, top[len(top)-1]+"/") {
			top = append(top, p)
		}
	}
	return top, nil
}

// removeTree removes a directory with all that is mounted below it. The mounts
// go first, so that nothing outside the directory is reached through them.
func removeTree(dir string) error {
	all, err := mountinfo.GetMounts(nil)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(all) { // the last one mounted is on top
		if m.Mountpoint != dir && !strings.HasPrefix(m.Mountpoint, dir+"/") {
			continue
		}
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
			return fmt.Errorf("unmount %s: %w", m.Mountpoint, err)
		}
	}
	return os.RemoveAll(filepath.Clean(dir))
}
