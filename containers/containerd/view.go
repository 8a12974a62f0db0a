package containerd

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// view is the file system that the processes of a container will see: its root, and over that
// what is mounted, the last one on top. Nothing in it is opened, and no link leads out of it.
type view struct {
	root   string
	mounts []mounted
}

// mounted is a mount. What has no source on the host is empty until the container runs.
type mounted struct{ at, source string }

// viewOf returns the view of a container that does not run.
func viewOf(root string, mounts []specs.Mount) view {
	v := view{root: root}
	for _, m := range mounts {
		if m.Type == "tmpfs" && slices.Contains(m.Options, "tmpcopyup") {
			continue // it has copies of what it covers
		}
		source := ""
		if m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind") {
			source = m.Source
		}
		v.mounts = append(v.mounts, mounted{v.resolve(m.Destination), source}) // the runtime follows links too
	}
	return v
}

// mostLinks is how many symbolic links a path may have, as for the kernel,
// path_resolution(7).
const mostLinks = 40

// resolve follows the links of a path. What does not exist has none.
func (v view) resolve(name string) string {
	at := "/"
	links := 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		target := v.link(next)
		if target == "" {
			at = next
			continue
		}
		if links++; links > mostLinks {
			return next // a link itself
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at
}

// link returns where a symbolic link leads; empty if a path is none.
func (v view) link(at string) string {
	f := v.hold(at)
	if f == nil {
		return ""
	}
	defer f.Close()
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", target)
	if err != nil {
		return ""
	}
	return string(target[:n])
}

// hold holds what is at a path without links (O_PATH); nil if there is nothing. A link that
// another container has put there meanwhile is not followed.
func (v view) hold(at string) *os.File {
	source, below := v.root, at
	for _, m := range slices.Backward(v.mounts) {
		if rest, ok := strings.CutPrefix(at, strings.TrimSuffix(m.at, "/")); ok && (rest == "" || rest[0] == '/') {
			source, below = m.source, rest
			break
		}
	}
	if source == "" {
		return nil
	}
	fd, err := unix.Open(source, unix.O_PATH|unix.O_CLOEXEC, 0)
	for name := range strings.SplitSeq(below, "/") {
		if err != nil {
			return nil
		}
		if name == "" {
			continue
		}
		dir := fd
		fd, err = unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(dir)
	}
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), at)
}
