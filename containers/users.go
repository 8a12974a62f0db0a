package containers

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// UsersFiles are what Docker and runc read in a container when they start it, for any user.
// They wait without end for one that is a FIFO, and keep each line in memory.
var UsersFiles = []string{"/etc/passwd", "/etc/group"}

// mostUsers is how many bytes of one of the files an engine is to read.
const mostUsers = 16 << 20

// CheckUsers returns an error if an engine would not get to the end of one of the files, which
// the image or the service can have put there. at is where it is if a link leads there, mode and
// size are 0 if there is none. Nothing opens it.
func CheckUsers(file, at string, mode fs.FileMode, size int64) error {
	what := ""
	switch {
	case slices.ContainsFunc([]string{"/proc/", "/sys/", "/dev/"}, func(dir string) bool { return strings.HasPrefix(at, dir) }):
		what = "a link to " + at // there is something only while it runs
	case mode.IsDir(): // reading it fails at once
	case mode&fs.ModeNamedPipe != 0:
		what = "a FIFO"
	case !mode.IsRegular():
		what = "no regular file"
	case size > mostUsers:
		what = fmt.Sprintf("a file of %d bytes", size)
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("its %s is %s, which the engine would not finish reading: do not trust its image or what ran in it, and create another container", file, what)
}
