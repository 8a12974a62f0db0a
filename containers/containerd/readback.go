package containerd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kollet/kollet/containers"
)

// createdExtension stores what a container was created from: the runtime's
// configuration does not show what the spec left to the image and what kollet
// added.
const createdExtension = "org.kollet.created"

type created struct {
	Spec containers.Spec `json:"spec"`
	OCI  json.RawMessage `json:"oci"` // the runtime's configuration
}

func (m created) extension() map[string]typeurl.Any {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers and JSON can always be marshaled
	}
	return map[string]typeurl.Any{createdExtension: &anypb.Any{TypeUrl: createdExtension, Value: text}}
}

// specOf returns a container's spec. Labels are as they are now. The runtime's
// configuration is compared with that at creation: settings that are equal have the
// value in the spec, settings that differ the value that they have now.
func specOf(c ctr.Container) (containers.Spec, error) {
	var m created
	if extension := c.Extensions[createdExtension]; extension != nil {
		if err := json.Unmarshal(extension.GetValue(), &m); err != nil {
			return m.Spec, fmt.Errorf("extension %s: %w; remove the container", createdExtension, err)
		}
	}
	spec := m.Spec
	if spec.Image == "" { // kollet did not create it
		spec.Image = c.Image
	}
	spec.Name, spec.Restart = nameOf(c), restartOf(c.Labels)
	spec.Labels = map[string]string{}
	for key, value := range m.Spec.Labels {
		if value == "" { // containerd does not store empty labels
			spec.Labels[key] = ""
		}
	}
	for key, value := range c.Labels {
		if !internal(key) {
			spec.Labels[key] = value
		}
	}
	if c.Spec != nil && !bytes.Equal(c.Spec.GetValue(), m.OCI) {
		if err := changed(&spec, c.Spec.GetValue(), m.OCI); err != nil {
			return spec, err
		}
	}
	return spec.Canonical(), nil
}

// changed sets in spec what was changed in the runtime's configuration.
func changed(spec *containers.Spec, nowText, wasText []byte) error {
	var now, was specs.Spec
	if err := json.Unmarshal(nowText, &now); err != nil {
		return fmt.Errorf("runtime's configuration: %w; remove the container", err)
	}
	if len(wasText) > 0 {
		if err := json.Unmarshal(wasText, &was); err != nil {
			return fmt.Errorf("runtime's configuration at creation: %w; remove the container", err)
		}
	}
	fill(&now)
	fill(&was)
	differ := func(now, was any) bool { return !reflect.DeepEqual(now, was) }
	if differ(now.Process.Args, was.Process.Args) {
		spec.Entrypoint, spec.Command = now.Process.Args, nil
	}
	if differ(now.Process.Env, was.Process.Env) {
		spec.Env = containers.Environment(now.Process.Env)
	}
	if now.Process.Cwd != was.Process.Cwd {
		spec.WorkingDir = now.Process.Cwd
	}
	if differ(now.Process.User, was.Process.User) {
		spec.User = fmt.Sprintf("%d:%d", now.Process.User.UID, now.Process.User.GID)
	}
	if differ(now.Process.Capabilities, was.Process.Capabilities) {
		spec.CapDrop, spec.CapAdd = []string{"ALL"}, now.Process.Capabilities.Bounding
	}
	if now.Root.Readonly != was.Root.Readonly {
		spec.ReadOnly = now.Root.Readonly
	}
	if differ(now.Process.Rlimits, was.Process.Rlimits) {
		spec.Ulimits = nil
		for _, l := range now.Process.Rlimits {
			name := strings.ToLower(strings.TrimPrefix(l.Type, "RLIMIT_"))
			spec.Ulimits = append(spec.Ulimits, containers.Ulimit{Name: name, Soft: int64(l.Soft), Hard: int64(l.Hard)}) //nolint:gosec // unlimited is -1
		}
	}
	if differ(now.Linux.Namespaces, was.Linux.Namespaces) {
		namespacesNow(spec, now.Linux.Namespaces)
	}
	if differ(now.Mounts, was.Mounts) {
		spec.Mounts = mountsNow(now.Mounts)
	}
	if differ(now.Linux.Resources, was.Linux.Resources) {
		spec.Dimensions = dimensionsNow(now.Linux.Resources, spec.Dimensions)
	}
	securityNow(spec, &now, &was)
	if differ(now.Linux.Devices, was.Linux.Devices) {
		spec.Devices = nil
		for _, d := range now.Linux.Devices {
			spec.Devices = append(spec.Devices, d.Path)
		}
	}
	return nil
}

// fill sets what is absent to empty values.
func fill(s *specs.Spec) {
	if s.Process == nil {
		s.Process = &specs.Process{}
	}
	if s.Process.Capabilities == nil {
		s.Process.Capabilities = &specs.LinuxCapabilities{}
	}
	if s.Root == nil {
		s.Root = &specs.Root{}
	}
	if s.Linux == nil {
		s.Linux = &specs.Linux{}
	}
	if s.Linux.Resources == nil {
		s.Linux.Resources = &specs.LinuxResources{}
	}
}

func namespacesNow(spec *containers.Spec, now []specs.LinuxNamespace) {
	own := map[specs.LinuxNamespaceType]bool{}
	for _, n := range now {
		own[n.Type] = true
	}
	for ns, field := range map[specs.LinuxNamespaceType]*string{
		specs.PIDNamespace: &spec.PID, specs.IPCNamespace: &spec.IPC, specs.NetworkNamespace: &spec.NetworkMode,
	} {
		switch {
		case !own[ns]:
			*field = "host"
		case *field == "host":
			*field = ""
		}
	}
}

func mountsNow(now []specs.Mount) []containers.Mount {
	var out []containers.Mount
	for _, m := range now {
		shown := containers.Mount{Type: m.Type, Source: m.Source, Target: m.Destination}
		if m.Type == containers.Tmpfs {
			shown.Source = ""
		}
		for _, o := range m.Options {
			key, value, _ := strings.Cut(o, "=")
			switch key {
			case "ro":
				shown.ReadOnly = true
			case "rprivate", "private", "rslave", "slave", "rshared", "shared":
				shown.Propagation = o
			case "size": // in bytes, as kollet writes it; anything else is another mount anyway
				shown.Size, _ = strconv.ParseInt(value, 10, 64)
			case "mode":
				shown.Mode = value
			}
		}
		out = append(out, shown)
	}
	return out
}

// ociOf returns a container's configuration for the runtime.
func ociOf(c ctr.Container) (*specs.Spec, error) {
	var spec specs.Spec
	if c.Spec == nil {
		return nil, fmt.Errorf("the container has no configuration for the runtime; remove it")
	}
	if err := json.Unmarshal(c.Spec.GetValue(), &spec); err != nil {
		return nil, fmt.Errorf("runtime's configuration: %w; remove the container", err)
	}
	fill(&spec)
	return &spec, nil
}
