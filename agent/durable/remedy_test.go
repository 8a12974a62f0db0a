package durable_test

import (
	"errors"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/durable"
)

func TestExplain(t *testing.T) {
	for want, err := range map[string]error{
		"open /state/lock: permission denied; run kollet as root":                                                        &fs.PathError{Op: "open", Path: "/state/lock", Err: unix.EACCES},
		"write /state/a: disk quota exceeded; free space with `kollet gc`, or by removing files that are not kollet's":   &fs.PathError{Op: "write", Path: "/state/a", Err: unix.EDQUOT},
		"mkdir /state: not a directory; move away what is in the place of a directory":                                   &fs.PathError{Op: "mkdir", Path: "/state", Err: unix.ENOTDIR},
		"open /state/lock: is a directory; move away the directory that is in the place of a file":                       &fs.PathError{Op: "open", Path: "/state/lock", Err: unix.EISDIR},
		"open /state/lock: too many open files; allow kollet more open files (`ulimit -n`, or LimitNOFILE= of its unit)": &fs.PathError{Op: "open", Path: "/state/lock", Err: unix.EMFILE},
		"open /state/lock: file exists": &fs.PathError{Op: "open", Path: "/state/lock", Err: unix.EEXIST},
	} {
		if got := durable.Explain(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("got  %v\nwant %s", got, want)
		}
	}
	if got := durable.Explain(nil); got != nil {
		t.Errorf("got %v", got)
	}
}
