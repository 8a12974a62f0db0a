package host

import (
	"fmt"
	"strings"

	"github.com/moby/sys/capability"
)

// missingCapabilities lists the capabilities that the kernel supports but that
// are not in this process's bounding set, as CAP_SYS_ADMIN. Neither this process
// nor what it starts can get them (capabilities(7)), which is usually true for
// the whole machine.
func missingCapabilities() ([]string, error) {
	supported, err := capability.ListSupported()
	if err != nil {
		return nil, fmt.Errorf("list the kernel's capabilities: %w", err)
	}
	var missing []string
	for _, c := range supported {
		name := "CAP_" + strings.ToUpper(c.String())
		has, err := capability.GetBound(c)
		if err != nil {
			return nil, fmt.Errorf("read whether %s is in the bounding set: %w", name, err)
		}
		if !has {
			missing = append(missing, name)
		}
	}
	return missing, nil
}
