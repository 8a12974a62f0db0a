package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// security sets what confines the container. It comes last: the default seccomp profile
// depends on the capabilities. Without no-new-privileges programs may gain some, as
// with Docker: sudo in an image needs it.
func security(spec containers.Spec) oci.SpecOpts {
	return func(ctx context.Context, client oci.Client, c *ctr.Container, s *specs.Spec) error {
		s.Process.NoNewPrivileges = spec.Security.NoNewPrivileges
		if profile := spec.Security.AppArmor; profile != "" && profile != containers.Unconfined {
			if err := host.Real().CheckAppArmor(profile); err != nil {
				return fmt.Errorf("apparmor=%s: %w", profile, err)
			}
			s.Process.ApparmorProfile = profile
		}
		switch {
		case spec.Security.Seccomp == "" && !spec.Privileged:
			return seccomp.WithDefaultProfile()(ctx, client, c, s)
		case spec.Security.Seccomp == "", spec.Security.Seccomp == containers.Unconfined:
			s.Linux.Seccomp = nil
			return nil
		}
		profile := json.NewDecoder(bytes.NewReader([]byte(spec.Security.Seccomp)))
		profile.DisallowUnknownFields() // Docker's own, such as archMap, would be ignored
		s.Linux.Seccomp = &specs.LinuxSeccomp{}
		if err := profile.Decode(s.Linux.Seccomp); err != nil {
			return fmt.Errorf("seccomp profile: %w; containerd needs one in the format of the OCI", err)
		}
		return nil
	}
}

// securityNow sets in spec what of its security was changed.
func securityNow(spec *containers.Spec, now, was *specs.Spec) {
	spec.Security.NoNewPrivileges = spec.Security.NoNewPrivileges != (now.Process.NoNewPrivileges != was.Process.NoNewPrivileges)
	if now.Process.ApparmorProfile != was.Process.ApparmorProfile {
		spec.Security.AppArmor = now.Process.ApparmorProfile
	}
	before, err := json.Marshal(was.Linux.Seccomp)
	after, errAfter := json.Marshal(now.Linux.Seccomp)
	switch {
	case err != nil || errAfter != nil || bytes.Equal(before, after):
	case now.Linux.Seccomp == nil:
		spec.Security.Seccomp = containers.Unconfined
	default:
		spec.Security.Seccomp = string(after)
	}
}
