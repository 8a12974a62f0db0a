package containers_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/kollet/kollet/containers"
)

func TestCheckUsers(t *testing.T) {
	const file = "/etc/passwd"
	for _, c := range []struct {
		at   string
		mode fs.FileMode
		size int64
		what string // empty: it may be read
	}{
		{file, 0, 0, ""},
		{file, 0o644, 3000, ""},
		{file, fs.ModeDir | 0o755, 4096, ""},
		{"/usr/lib/passwd", 0o644, 3000, ""},
		{"/process", 0, 0, ""},
		{file, fs.ModeNamedPipe | 0o644, 0, "a FIFO"},
		{"/run/pipe", fs.ModeNamedPipe | 0o644, 0, "a FIFO"},
		{file, fs.ModeDevice | fs.ModeCharDevice | 0o644, 0, "no regular file"},
		{file, fs.ModeSocket | 0o644, 0, "no regular file"},
		{file, 0o644, 1 << 40, "a file of 1099511627776 bytes"},
		{"/proc/kmsg", 0, 0, "a link to /proc/kmsg"},
		{"/dev/shm/x", 0, 0, "a link to /dev/shm/x"},
	} {
		err := containers.CheckUsers(file, c.at, c.mode, c.size)
		if (err == nil) != (c.what == "") || err != nil && !strings.HasPrefix(err.Error(), "its /etc/passwd is "+c.what+", which the engine would not finish reading: ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
