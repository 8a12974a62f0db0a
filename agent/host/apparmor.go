package host

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// AppArmor reports whether the kernel has AppArmor and uses it.
func (h Host) AppArmor() bool {
	enabled, err := os.ReadFile(filepath.Join(h.Sys, "module/apparmor/parameters/enabled"))
	return err == nil && bytes.HasPrefix(enabled, []byte("Y"))
}

// dockerProfile is the profile that Docker loads itself when it needs it.
const dockerProfile = "docker-default"

// CheckAppArmor returns an error if this host cannot confine a process with a profile of
// AppArmor. It does not know that of one that the kernel does not list by this name, because
// it is in another namespace or stacked, and of none if the list cannot be read.
func (h Host) CheckAppArmor(profile string) error {
	if !h.AppArmor() {
		return errors.New("the kernel of this host has no AppArmor; remove it from security_opt")
	}
	loaded, err := os.ReadFile(filepath.Join(h.Sys, "kernel/security/apparmor/profiles"))
	if err != nil || profile == dockerProfile || strings.ContainsAny(profile, ":&") {
		return nil
	}
	for line := range strings.Lines(string(loaded)) { // NAME (MODE)
		if at := strings.LastIndex(line, " ("); at >= 0 && line[:at] == profile {
			return nil
		}
	}
	return errors.New("this profile is not loaded; load it with apparmor_parser, or name one of /sys/kernel/security/apparmor/profiles in security_opt")
}
