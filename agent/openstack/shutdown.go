package openstack

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// GracefulShutdown is how long nova-compute waits, after SIGTERM, for what it is
// doing: the default of graceful_shutdown_timeout in Nova of this version. It was
// oslo.service's 60 s until 2025.2 (Nova 32) and is Nova's own 180 s since 2026.1
// (Nova 33; nova-specs: 2026.1/approved/nova-services-graceful-shutdown-part1).
func GracefulShutdown(version string) (time.Duration, error) {
	major := leadingNumber.FindString(version)
	number, err := strconv.Atoi(major)
	if err != nil {
		return 0, fmt.Errorf("expected a version of Nova such as 33.0.0, got %q", version)
	}
	if number >= 33 {
		return 180 * time.Second, nil
	}
	return 60 * time.Second, nil
}

var leadingNumber = regexp.MustCompile(`^[0-9]+`)
