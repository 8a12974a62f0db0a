package docker

import (
	"fmt"
	"strings"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// checkSecurity returns an error if Docker would ignore an AppArmor profile, or refuse it.
func checkSecurity(s containers.Security) error {
	if s.AppArmor == "" || s.AppArmor == containers.Unconfined {
		return nil
	}
	if err := host.Real().CheckAppArmor(s.AppArmor); err != nil {
		return fmt.Errorf("apparmor=%s: %w", s.AppArmor, err)
	}
	return nil
}

func toSecurityOpt(s containers.Security) []string {
	var opts []string
	if s.NoNewPrivileges {
		opts = append(opts, "no-new-privileges")
	}
	if s.AppArmor != "" {
		opts = append(opts, "apparmor="+s.AppArmor)
	}
	if s.Seccomp != "" {
		opts = append(opts, "seccomp="+s.Seccomp)
	}
	return opts
}

// fromSecurityOpt leaves out labels of SELinux, which Docker adds itself.
func fromSecurityOpt(opts []string) containers.Security {
	var s containers.Security
	for _, opt := range opts {
		key, value := opt, ""
		if at := strings.IndexAny(opt, "=:"); at >= 0 { // the docker command takes both
			key, value = opt[:at], opt[at+1:]
		}
		switch key {
		case "no-new-privileges":
			s.NoNewPrivileges = value == "" || value == "true"
		case "apparmor":
			s.AppArmor = value
		case "seccomp":
			s.Seccomp = value
		}
	}
	return s
}
