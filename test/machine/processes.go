package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
)

// command returns the name of a process's program, empty if the process is gone.
func command(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text))
}

// cmdline returns a process's arguments, separated by spaces.
func cmdline(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// rootBelow reports whether a process's root file system is below dir, like a container's:
// a directory there, or an overlay with layers there.
func rootBelow(pid int, dir string) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return false
	}
	defer f.Close()
	roots, err := mountinfo.GetMountsFromReader(f, func(m *mountinfo.Info) (skip, stop bool) { return m.Mountpoint != "/", false })
	return err == nil && slices.ContainsFunc(roots, func(m *mountinfo.Info) bool {
		return strings.Contains(m.Root, dir+"/") || strings.Contains(m.VFSOptions, escapeBlanks.Replace(dir)+"/")
	})
}

// escapeBlanks writes a path as the kernel does in a mount's options.
var escapeBlanks = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)

// killAll kills the chosen processes until none is left, because a process may have started
// another one before it was killed.
func killAll(chosen func(pid int) bool) {
	for deadline := time.Now().Add(ready); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		entries, _ := filepath.Glob("/proc/[0-9]*")
		left := 0
		for _, entry := range entries {
			pid, err := strconv.Atoi(filepath.Base(entry))
			if err != nil || pid == 1 || pid == os.Getpid() || !chosen(pid) {
				continue
			}
			syscall.Kill(pid, syscall.SIGKILL)
			left++
		}
		if left == 0 {
			return
		}
	}
}
