package containers

import (
	"crypto/sha256"
	"fmt"
)

// Unconfined is the Seccomp or AppArmor of a container without such a profile.
const Unconfined = "unconfined"

// Security confines the processes of a container further than its capabilities do.
type Security struct {
	NoNewPrivileges bool   `json:"no_new_privileges,omitempty"` // no program gives more of them, not even with set-id bits
	Seccomp         string `json:"seccomp,omitempty"`           // Unconfined, or a profile in the OCI's format, as JSON; empty: the engine's. Privileged containers have none
	AppArmor        string `json:"apparmor,omitempty"`          // Unconfined, or the name of a profile that is loaded; empty: the engine's
}

func (s Security) hasProfile() bool { return s.Seccomp != "" && s.Seccomp != Unconfined }

// Check returns a problem that every engine has.
func (s Security) Check() error {
	if !s.hasProfile() {
		return nil
	}
	if err := checkSeccomp(s.Seccomp); err != nil {
		return fmt.Errorf("seccomp profile: %w", err)
	}
	return nil
}

// Settings returns what is set, in the words of security_opt. Of a seccomp profile it has
// a checksum.
func (s Security) Settings() []string {
	var all []string
	if s.NoNewPrivileges {
		all = append(all, "no-new-privileges")
	}
	if s.AppArmor != "" {
		all = append(all, "apparmor="+s.AppArmor)
	}
	if s.hasProfile() {
		all = append(all, fmt.Sprintf("seccomp=profile %.6x", sha256.Sum256([]byte(s.Seccomp))))
	} else if s.Seccomp != "" {
		all = append(all, "seccomp="+s.Seccomp)
	}
	return all
}
