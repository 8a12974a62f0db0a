package failure

import (
	"fmt"
	"strings"

	"github.com/moby/sys/capability"
)

// RestrictedCaps explains why an engine cannot start a privileged container,
// which asks for every capability that the kernel knows: none outside of the
// bounding set can be had (capabilities(7)).
func RestrictedCaps(engine string) string {
	const why = "the capability bounding set of %s is restricted, so it cannot start privileged containers: "
	missing := missingCaps()
	if len(missing) == 0 {
		return fmt.Sprintf(why+"allow all capabilities (CapabilityBoundingSet= in the units of %s and containerd), then restart both", engine, engine)
	}
	return fmt.Sprintf(why+"%s missing on this host; what started this host (a container manager, a sandbox, or CapabilityBoundingSet= of a unit) must allow all capabilities",
		engine, strings.Join(missing, ", "))
}

// missingCaps lists the capabilities that the kernel knows (cap_last_cap) but
// that this process, and so probably the whole host, cannot get.
func missingCaps() []string {
	self, err := capability.NewPid2(0)
	if err != nil || self.Load() != nil {
		return nil
	}
	known, err := capability.ListSupported()
	if err != nil {
		return nil
	}
	var missing []string
	for _, c := range known {
		if !self.Get(capability.BOUNDING, c) {
			missing = append(missing, "CAP_"+strings.ToUpper(c.String()))
		}
	}
	return missing
}
