package nodefile

import (
	"fmt"
	"path"
	"strings"

	"github.com/kollet/kollet/containers"
)

// Security returns what security_opt says, with the path of the file on the host that has
// the seccomp profile, or the key of the first problem.
func (s Service) Security() (out containers.Security, profile, key string, err error) {
	for i, option := range s.SecurityOpt {
		key = fmt.Sprintf("security_opt[%d]", i)
		name, value := option, ""
		if at := strings.IndexAny(option, "=:"); at >= 0 { // the docker command takes both
			name, value = option[:at], option[at+1:]
		}
		switch {
		case name == "no-new-privileges" && (value == "" || value == "true" || value == "false"):
			out.NoNewPrivileges = value != "false"
		case name == "apparmor" && value != "":
			out.AppArmor = value
		case name == "seccomp" && value == containers.Unconfined:
			out.Seccomp, profile = value, ""
		case name == "seccomp" && path.IsAbs(value):
			out.Seccomp, profile = "", value
		case name == "seccomp":
			return out, "", key, fmt.Errorf("expected seccomp=unconfined, or the absolute path of a profile on the host, got %q", option)
		case name == "label":
			return out, "", key, fmt.Errorf("labels of SELinux are not supported, got %q; remove it", option)
		default:
			return out, "", key, fmt.Errorf("expected no-new-privileges, seccomp=… or apparmor=…, got %q", option)
		}
	}
	return out, profile, "", nil
}
