package docker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/docker/docker/client"
	"github.com/moby/sys/capability"
)

// isUnreachable tells a missing engine, or one that dies during the request,
// from one that answers with an error.
func isUnreachable(err error) bool {
	var network *net.OpError
	return client.IsErrConnectionFailed(err) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// plain is the engine's own message on one line.
func plain(err error) string {
	s := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	return strings.Join(strings.Fields(s), " ")
}

// remedies pairs what Docker and runc say with what to do about it.
var remedies = []struct{ says, remedy string }{
	{"bind source path does not exist", "create it, or take the mount out of the service"},
	{"is not a shared mount", "make it one: mount --make-rshared on the mount point named above, / on most machines"},
	{"is not a shared or slave mount", "make it one: mount --make-rshared on the mount point named above, / on most machines"},
	{"no space left on device", "free disk space where docker keeps its data (docker info, Docker Root Dir)"},
	{"error gathering device information", "check that the device exists on this machine"},
	{"is already in use by container", "remove that container, or rename it"},
	{"no such image", "pull it first"},
	{"error setting rlimit", "this host gives no more than the limits that docker runs with: allow it CAP_SYS_RESOURCE or higher limits (LimitNOFILE=, LimitMEMLOCK= in its unit), or lower ulimits of the service"},
}

func remedyFor(message string) string {
	if strings.Contains(message, "unable to apply caps") {
		return capsRemedy(missingCaps())
	}
	for _, r := range remedies {
		if strings.Contains(strings.ToLower(message), r.says) {
			return r.remedy
		}
	}
	return ""
}

// capsRemedy explains runc's "unable to apply caps": a privileged container
// asks for every capability that the kernel knows, and nobody can get one that
// is not in the bounding set (capabilities(7)).
func capsRemedy(missing []string) string {
	const why = "the capability bounding set that docker runs with is restricted, so it cannot start privileged containers"
	if len(missing) == 0 {
		return why + ": allow all capabilities to docker and containerd (CapabilityBoundingSet= in their units), then restart them"
	}
	return fmt.Sprintf("%s: %s missing on this host: whatever started this host (a container manager, a sandbox, or CapabilityBoundingSet= of a unit) must allow all capabilities",
		why, strings.Join(missing, ", "))
}

// missingCaps lists the capabilities that the kernel knows (cap_last_cap) but
// this process, and so most likely the whole host, can never get.
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
