package containerd

import (
	"strings"
)

// plain is the engine's own message on one line.
func plain(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// remedies pairs what containerd and runc say with what to do about it.
var remedies = []struct{ says, remedy string }{
	{"bind source path does not exist", "create it, or take the mount out of the service"},
	{"is not a shared mount", "make it one: mount --make-rshared on the mount point named above, / on most machines"},
	{"is not a shared or slave mount", "make it one: mount --make-rshared on the mount point named above, / on most machines"},
	{"no space left on device", "free disk space where containerd keeps its data (/var/lib/containerd on most machines) and where kollet does"},
	{"error stating device path", "check that the device exists on this machine"},
	{"is already in use by container", "remove that container, or rename it"},
	{"no such image", "pull it first"},
	{"error setting rlimit", "this host gives no more than the limits that containerd runs with: allow it CAP_SYS_RESOURCE or higher limits (LimitNOFILE=, LimitMEMLOCK= in its unit), or lower ulimits of the service"},
	{"failed to start binary process", "the program that writes logs is kollet itself: put it back where it was when the container was started, and start the container with kollet"},
	{"unable to apply caps", "containerd may have fewer capabilities than kollet: start both with the same bounding set (CapabilityBoundingSet= in their units)"},
}

func remedyFor(message string) string {
	for _, r := range remedies {
		if strings.Contains(strings.ToLower(message), r.says) {
			return r.remedy
		}
	}
	return ""
}
