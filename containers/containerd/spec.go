package containerd

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// defaultPath is what Docker sets if the image does not.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// devicePermissions are those of `docker run --device`.
const devicePermissions = "rwm"

// specVersion is the version of the OCI runtime specification that specs are written for, as
// containerd 1.6 writes them. crun 1.8, which is Debian 12's, refuses newer ones, and a spec
// has nothing that is newer.
const specVersion = "1.0.2"

// toOCI converts a canonical spec for the runtime, so that the container has the
// same environment as with Docker. c is the new container; its snapshot exists,
// because user names are looked up in it.
func (e *Engine) toOCI(ctx context.Context, c *ctr.Container, spec containers.Spec, image ocispec.ImageConfig) (*specs.Spec, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	if spec.NetworkMode != "host" {
		hostname = c.ID[:12]
	}
	opts := []oci.SpecOpts{
		version,
		oci.WithHostname(hostname),
		process(spec, image, hostname),
		user(spec, image),
		namespacesOf(spec),
		mounts(spec, e.volume),
		dimensions(spec.Dimensions, host.Real().LimitsSwap()),
	}
	if spec.Privileged {
		opts = append(opts, oci.WithPrivileged, oci.WithHostDevices, oci.WithAllDevicesAllowed)
	} else {
		opts = append(opts, oci.WithDefaultUnixDevices)
	}
	opts = append(opts, oci.WithAddedCapabilities(nil), capabilities(spec))
	for _, d := range spec.Devices {
		opts = append(opts, oci.WithDevices(d, d, devicePermissions))
	}
	if spec.ReadOnly {
		opts = append(opts, oci.WithRootFSReadonly())
	}
	opts = append(opts, security(spec))
	return oci.GenerateSpec(e.in(ctx), e.client, c, opts...)
}

func version(_ context.Context, _ oci.Client, _ *ctr.Container, s *specs.Spec) error {
	s.Version = specVersion
	return nil
}

// process sets the command, its environment and its limits.
func process(spec containers.Spec, image ocispec.ImageConfig, hostname string) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *ctr.Container, s *specs.Spec) error {
		s.Process.Args = argv(spec, image)
		if len(s.Process.Args) == 0 {
			return fmt.Errorf("neither the spec nor the image has a command; set one")
		}
		s.Process.Env = environment(spec, image, hostname)
		if s.Process.Cwd = spec.WorkingDir; s.Process.Cwd == "" {
			s.Process.Cwd = image.WorkingDir
		}
		if s.Process.Cwd == "" {
			s.Process.Cwd = "/"
		}
		s.Process.Rlimits = nil // use the engine's
		for _, u := range spec.Ulimits {
			s.Process.Rlimits = append(s.Process.Rlimits, specs.POSIXRlimit{
				Type: "RLIMIT_" + strings.ToUpper(u.Name), Soft: limit(u.Soft), Hard: limit(u.Hard),
			})
		}
		return nil
	}
}

func argv(spec containers.Spec, image ocispec.ImageConfig) []string {
	entrypoint, command := image.Entrypoint, image.Cmd
	if spec.Entrypoint != nil {
		entrypoint, command = spec.Entrypoint, nil
	}
	if spec.Command != nil {
		command = spec.Command
	}
	return slices.Concat(entrypoint, command)
}

// environment returns the image's environment with the spec's variables.
func environment(spec containers.Spec, image ocispec.ImageConfig, hostname string) []string {
	var env []string
	seen := map[string]bool{}
	for _, e := range slices.Concat([]string{"HOSTNAME=" + hostname}, image.Env) {
		key, _, _ := strings.Cut(e, "=")
		if _, over := spec.Env[key]; !over {
			env = append(env, e)
			seen[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(spec.Env)) {
		env = append(env, key+"="+spec.Env[key])
		seen[key] = true
	}
	if !seen["PATH"] {
		env = append(env, defaultPath)
	}
	return env
}

func limit(n int64) uint64 {
	if n < 0 {
		return math.MaxUint64 // RLIM_INFINITY, getrlimit(2)
	}
	return uint64(n)
}

func user(spec containers.Spec, image ocispec.ImageConfig) oci.SpecOpts {
	name := spec.User
	if name == "" {
		name = image.User
	}
	if name == "" {
		name = "0"
	}
	return func(ctx context.Context, c oci.Client, container *ctr.Container, s *specs.Spec) error {
		if err := oci.WithUser(name)(ctx, c, container, s); err != nil {
			return fmt.Errorf("user %s: %w", name, err)
		}
		only := s.Process.User
		if strings.Contains(name, ":") {
			return nil // with a group, no additional groups are added, as with Docker
		}
		if err := oci.WithAdditionalGIDs(name)(ctx, c, container, s); err != nil {
			return fmt.Errorf("groups of user %s: %w", name, err)
		}
		s.Process.User.UID, s.Process.User.GID = only.UID, only.GID
		return nil
	}
}

func namespacesOf(spec containers.Spec) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, container *ctr.Container, s *specs.Spec) error {
		s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
			return spec.PID == "host" && n.Type == specs.PIDNamespace ||
				spec.IPC == "host" && n.Type == specs.IPCNamespace ||
				spec.NetworkMode == "host" && n.Type == specs.NetworkNamespace ||
				n.Type == specs.CgroupNamespace
		})
		if spec.Cgroup == "" && cgroupV2() {
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
		}
		return nil
	}
}

// capabilities adds and drops capabilities. Users other than root get only the
// bounding set, as when they execute a program (capabilities(7)).
func capabilities(spec containers.Spec) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, container *ctr.Container, s *specs.Spec) error {
		set := s.Process.Capabilities.Bounding
		if slices.Contains(spec.CapAdd, "ALL") && !spec.Privileged {
			if err := oci.WithAllCurrentCapabilities(ctx, c, container, s); err != nil {
				return err
			}
			set = s.Process.Capabilities.Bounding
		}
		if slices.Contains(spec.CapDrop, "ALL") && !spec.Privileged {
			set = nil
		}
		names := slices.Clone(set)
		for _, name := range spec.CapAdd {
			if name != "ALL" && !slices.Contains(names, "CAP_"+name) {
				names = append(names, "CAP_"+name)
			}
		}
		names = slices.DeleteFunc(names, func(name string) bool {
			return !spec.Privileged && slices.Contains(spec.CapDrop, strings.TrimPrefix(name, "CAP_"))
		})
		s.Process.Capabilities = capabilitySets(s.Process.User.UID, names)
		return nil
	}
}

func capabilitySets(uid uint32, names []string) *specs.LinuxCapabilities {
	if uid != 0 {
		return &specs.LinuxCapabilities{Bounding: names}
	}
	return &specs.LinuxCapabilities{Bounding: names, Effective: names, Permitted: names}
}

// mounts replaces the client's default mounts with Docker's, and adds the spec's.
func mounts(spec containers.Spec, volume func(string) string) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, container *ctr.Container, s *specs.Spec) error {
		all := slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool { return m.Destination == "/run" })
		all = append(all, specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup",
			Options: []string{"ro", "nosuid", "noexec", "nodev"}})
		if spec.IPC == "host" {
			all = replace(all, bind("/dev/shm", "/dev/shm"))
		}
		if spec.NetworkMode == "host" {
			for _, file := range []string{"/etc/hosts", "/etc/resolv.conf"} {
				if _, err := os.Stat(file); err == nil {
					all = append(all, bind(file, file))
				}
			}
		}
		for _, m := range spec.Mounts {
			all = slices.DeleteFunc(all, func(d specs.Mount) bool {
				return d.Destination == m.Target || m.Target == "/dev" && strings.HasPrefix(d.Destination, "/dev/")
			})
		}
		for _, m := range spec.Mounts { // sorted by target, so that outer mounts come first
			mount, rootfs, err := toMount(m, volume)
			if err != nil {
				return err
			}
			if rootfs != "" && s.Linux.RootfsPropagation != "shared" {
				s.Linux.RootfsPropagation = rootfs
			}
			all = append(all, mount)
		}
		s.Mounts = all
		return nil
	}
}

func bind(source, target string) specs.Mount {
	return specs.Mount{Type: "bind", Source: source, Destination: target, Options: []string{"rbind", "rprivate"}}
}

func replace(all []specs.Mount, m specs.Mount) []specs.Mount {
	for i := range all {
		if all[i].Destination == m.Destination {
			all[i] = m
		}
	}
	return all
}

// toMount converts a mount for the runtime. It also returns the propagation that the
// container's root needs for that of the mount to take effect.
func toMount(m containers.Mount, volume func(string) string) (out specs.Mount, rootfs string, err error) {
	switch m.Type {
	case containers.Tmpfs:
		out = specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: m.Target, Options: []string{"noexec", "nosuid", "nodev"}}
		if m.Size != 0 {
			out.Options = append(out.Options, fmt.Sprintf("size=%d", m.Size))
		}
		if m.Mode != "" {
			out.Options = append(out.Options, "mode="+m.Mode)
		}
	case containers.Volume:
		out = bind(volume(m.Source), m.Target)
	case containers.Bind:
		if _, err := os.Stat(m.Source); err != nil {
			return out, "", failure.Mark(failure.MissingSource, fmt.Errorf("bind mount at %s: %w", m.Target, err))
		}
		out = bind(m.Source, m.Target)
		if m.Propagation != "" {
			out.Options[1] = m.Propagation
		}
		if strings.HasSuffix(m.Propagation, "shared") {
			rootfs = "shared"
		} else if strings.HasSuffix(m.Propagation, "slave") {
			rootfs = "rslave"
		}
		if rootfs != "" {
			err = checkPropagation(m.Source, rootfs == "shared")
		}
	}
	if m.ReadOnly {
		out.Options = append(out.Options, "ro")
	}
	return out, rootfs, err
}

// volume returns the directory of a named volume.
func (e *Engine) volume(name string) string { return path.Join(e.root, "volumes", name) }
