package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is a line of /proc/PID/mountinfo, see proc(5).
type mount struct {
	point string
	fs    string // type
	line  string
}

// mounts of this process.
func mounts() ([]mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(string(text))
}

func parseMounts(text string) ([]mount, error) {
	var all []mount
	for line := range strings.Lines(text) {
		before, after, found := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !found || len(left) < 6 || len(right) < 1 {
			return nil, fmt.Errorf("mountinfo has a strange line: %q", line)
		}
		all = append(all, mount{
			point: unescape.Replace(left[4]),
			fs:    right[0],
			line:  unescape.Replace(line),
		})
	}
	return all, nil
}

// unescape undoes how the kernel writes white space in paths.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountsBelow lists where something is mounted below a directory, without what
// is mounted below that in turn.
func mountsBelow(dir string) ([]string, error) {
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	var points []string
	for _, m := range all {
		if strings.HasPrefix(m.point, dir+"/") {
			points = append(points, m.point)
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
	all, err := mounts()
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(all) { // the last one mounted is on top
		if m.point != dir && !strings.HasPrefix(m.point, dir+"/") {
			continue
		}
		if err := unix.Unmount(m.point, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
			return fmt.Errorf("unmount %s: %w", m.point, err)
		}
	}
	return os.RemoveAll(filepath.Clean(dir))
}
