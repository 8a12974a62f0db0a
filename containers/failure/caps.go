package failure

import (
	"fmt"
	"strings"
)

// RestrictedCaps explains why an engine cannot start a privileged container,
// which asks for every capability that the kernel supports: no process gets one
// outside of its bounding set (capabilities(7)). missing are those that the host
// does not have.
func RestrictedCaps(engine string, missing []string) string {
	why := fmt.Sprintf("the capability bounding set of %s is restricted, so it cannot start privileged containers", engine)
	if len(missing) == 0 {
		return fmt.Sprintf("%s: allow all capabilities (CapabilityBoundingSet= in the units of %s and containerd), then restart both", why, engine)
	}
	return fmt.Sprintf("%s: %s missing on this host; what started the host (a container manager, a sandbox, or CapabilityBoundingSet= of a unit) must allow all capabilities",
		why, strings.Join(missing, ", "))
}
