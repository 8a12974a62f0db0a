package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kollet/kollet/test/machine/bounded"
)

// Runtime returns the path of the OCI runtime to use: runc, or one that uses the runtime
// of package bounded if the capability bounding set is restricted.
func Runtime(t TB) string {
	t.Helper()
	runc := program(t, "runc")
	if len(bounded.Missing()) == 0 {
		return runc
	}
	path := filepath.Join(os.Getenv(dirVar), "oci-runtime")
	if _, err := os.Stat(path); err != nil {
		writeRuntime(t, path, "$PATH:/usr/sbin") // daemons may have a PATH without sbin
	}
	return path
}

// boundedRunc uses the runtime of package bounded for the three commands that read a
// specification with capabilities, and runc for all others, of which there are many: a
// shell starts in a tenth of the time that this program takes.
const boundedRunc = `#!/bin/sh
PATH=%s
for word; do
	case $word in create | run | exec) exec %s "$@" ;; esac
done
exec runc "$@"
`

// writeRuntime writes a bounded runtime that finds runc in a PATH.
func writeRuntime(t TB, file, path string) {
	t.Helper()
	// Enter recognizes the name, so this program can be the runtime.
	link := filepath.Join(os.Getenv(dirVar), bounded.Name)
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, link)
	}
	if err == nil || os.IsExist(err) {
		err = writeProgram(file, fmt.Sprintf(boundedRunc, path, link))
	}
	if err != nil {
		t.Fatalf("make an OCI runtime: %v", err)
	}
}

// writeProgram writes a script that other tests may be writing, or executing.
func writeProgram(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o755), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
