package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kollet/kollet/containers"
)

// birth starts the node's guest in alpha.
func (v *victim) birth() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	running, err := v.passed()
	if err != nil {
		return err
	}
	status, err := v.Engine.Exec(ctx, running["alpha"].ID, containers.Exec{Argv: []string{"/bin/tiny", "guest", v.uuid}, Short: true})
	if err != nil || status != 0 {
		return fmt.Errorf("start a guest: exit status %d, %w", status, err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		if bytes.HasPrefix(line, []byte("qemu-system-")) && bytes.Contains(line, []byte(v.uuid)) {
			var pid int
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil {
				return err
			}
			v.exposed = false
			v.guest, err = os.FindProcess(pid)
			return err
		}
	}
	return errors.New("the guest that was started is not there")
}

// alive requires that the guest still is the process that it was, unless the engine may
// have killed it.
func (v *victim) alive() error {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", v.guest.Pid))
	if (err != nil || !strings.HasPrefix(string(line), "qemu-system-")) && !v.exposed {
		return errors.Join(errors.New("the guest is lost"), err)
	}
	return nil
}

// endGuest kills the guest, and waits until it is gone.
func (v *victim) endGuest() error {
	if err := v.guest.Kill(); err != nil && !v.exposed {
		return fmt.Errorf("the guest is lost: %w", err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if v.guest.Signal(syscall.Signal(0)) != nil {
			return nil
		}
	}
	return errors.New("the guest cannot be ended")
}

// inside reports whether the guest is in the cgroup of a container, as before its first
// upgrade: what ends all processes of the container ends it too.
func (v *victim) inside(all []containers.Container) bool {
	cgroups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", v.guest.Pid))
	for _, c := range all {
		if strings.Contains(string(cgroups), c.ID) {
			return true
		}
	}
	return false
}
