package containerd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// containerd 1.6 has no count of how often its restart monitor started a container, and
// that of newer versions includes the start after a boot. So the log writer counts the
// runs of its container: it is started for each. Start begins again with the first.

// bootFile identifies the machine's current boot (proc_sys_kernel(5)).
const bootFile = "/proc/sys/kernel/random/boot_id"

// countRun records a run that begins: the boot and, after a space, how many runs of this
// boot were before it since Start.
func countRun(dir string) error {
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		return err
	}
	restarts := 0
	before, err := os.ReadFile(filepath.Join(dir, restartsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		restarts = parseRestarts(string(before), strings.TrimSpace(string(boot))) + 1
	}
	return writeLine(dir, restartsFile, fmt.Sprintf("%s %d", strings.TrimSpace(string(boot)), restarts))
}

// parseRestarts returns how often a container was restarted during a boot; -1 if it did
// not run.
func parseRestarts(text, boot string) int {
	at, number, _ := strings.Cut(strings.TrimSpace(text), " ")
	restarts, err := strconv.Atoi(number)
	if err != nil || at != boot {
		return -1
	}
	return restarts
}

// restartsOf returns how often the monitor restarted a container, as
// containers.Container.Restarts.
func (e *Engine) restartsOf(id string) int {
	text, err := os.ReadFile(filepath.Join(e.dir(id), restartsFile))
	if err != nil {
		return 0 // it never ran, or was started by a version that did not count
	}
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		return 0
	}
	return max(0, parseRestarts(string(text), strings.TrimSpace(string(boot))))
}

// forgetRestarts makes the next run the first.
func (e *Engine) forgetRestarts(id string) error {
	err := os.Remove(filepath.Join(e.dir(id), restartsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
