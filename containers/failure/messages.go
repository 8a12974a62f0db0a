package failure

// anyEngine is for messages that both engines pass on.
const anyEngine = ""

// messages are texts of errors for which the clients have no types: Docker's API
// passes on the messages of registries and runc with one of a few HTTP statuses,
// containerd's those of runc and its shim. All parts of text must occur, in any case.
var messages = []struct {
	kind   Kind
	engine string
	text   []string
	source string // where the text comes from
}{
	// runc: https://github.com/opencontainers/runc
	{LimitRefused, anyEngine, []string{"error setting rlimit"}, "libcontainer/init_linux.go: setupRlimits"},
	{CapsRefused, anyEngine, []string{"unable to apply caps"}, "libcontainer/init_linux.go: finalizeNamespace"},
	{AppArmorRefused, anyEngine, []string{"unable to apply apparmor profile"}, "libcontainer/standard_init_linux.go: Init"},
	{SeccompRefused, anyEngine, []string{"is not a valid", "for seccomp"}, "libcontainer/seccomp/config.go: ConvertStringToAction"},
	{SeccompRefused, anyEngine, []string{"seccomp flags are not"}, "libcontainer/specconv/spec_linux.go: SetupSeccomp"},
	{SeccompRefused, anyEngine, []string{"error creating seccomp"}, "libcontainer/seccomp/seccomp_linux.go: matchCall"},
	{SeccompRefused, anyEngine, []string{"seccomp filter"}, "libcontainer/seccomp/seccomp_linux.go: InitSeccomp"},
	{SeccompRefused, anyEngine, []string{"error creating filter"}, "libcontainer/seccomp/seccomp_linux.go: InitSeccomp"},
	{CgroupRefused, anyEngine, []string{"error setting cgroup config"}, "libcontainer/process_linux.go: start"},
	{CgroupRefused, anyEngine, []string{"unable to apply cgroup configuration", "failed to write"}, "libcontainer/process_linux.go: start"},
	// crun: https://github.com/containers/crun
	{LimitRefused, anyEngine, []string{"setrlimit `", "operation not permitted"}, "src/libcrun/linux.c: libcrun_set_rlimits"},
	{SeccompRefused, anyEngine, []string{"seccomp unknown"}, "src/libcrun/seccomp.c: libcrun_generate_seccomp"},
	{SeccompRefused, anyEngine, []string{"seccomp_rule_add"}, "src/libcrun/seccomp.c: libcrun_generate_seccomp"},
	{CapsRefused, anyEngine, []string{"capset: operation not permitted"}, "src/libcrun/linux.c: set_required_caps"},

	// the kernel
	{DiskFull, anyEngine, []string{"no space left on device"}, "ENOSPC, strerror(3)"},

	// Docker: https://github.com/moby/moby
	{MissingImage, "docker", []string{"no such image"}, "daemon/images/image.go: ErrImageDoesNotExist"},
	{NameTaken, "docker", []string{"is already in use by container"}, "daemon/errors.go: nameConflictError"},
	{BeingRemoved, "docker", []string{"is already in progress"}, "daemon/delete.go: containerRm"},
	{MissingSource, "docker", []string{"bind source path does not exist"}, "volume/mounts/validate.go: errBindSourceDoesNotExist"},
	{NotShared, "docker", []string{"is not a shared mount"}, "daemon/oci_linux.go: ensureShared"},
	{NotShared, "docker", []string{"is not a shared or slave mount"}, "daemon/oci_linux.go: ensureSharedOrSlave"},
	{SeccompRefused, "docker", []string{"decoding seccomp profile failed"}, "profiles/seccomp/seccomp_linux.go: LoadProfile"},
	{CgroupRefused, "docker", []string{"requested cpus are not available"}, "daemon/daemon_unix.go: verifyPlatformContainerResources"},
	{CgroupRefused, "docker", []string{"requested memory nodes are not available"}, "daemon/daemon_unix.go: verifyPlatformContainerResources"},
	{MissingDevice, "docker", []string{"error gathering device information"}, "oci/devices_linux.go: DevicesFromPath"},
	// Without a manifest.json Docker expects the format of its first versions,
	// in which each directory is a layer with a file named json.
	{UnknownFormat, "docker", []string{"/docker-import-", "no such file or directory"}, "image/tarexport/load.go: legacyLoad"},
	{Damaged, "docker", []string{"invalid diffid"}, "image/tarexport/load.go: Load"},
	{Damaged, anyEngine, []string{"unexpected eof"}, "Go, io.ErrUnexpectedEOF"},
	{Damaged, anyEngine, []string{"invalid tar header"}, "Go, archive/tar.ErrHeader"},
	{Damaged, "containerd", []string{"wrong diff id"}, "core/unpack/unpacker.go, pkg/rootfs/apply.go"},

	// Registries, as Docker passes them on (distribution/errors.go):
	// https://distribution.github.io/distribution/spec/api/#errors-2
	{NotInRegistry, "docker", []string{"manifest unknown"}, "MANIFEST_UNKNOWN"},
	{NotInRegistry, "docker", []string{"not found: manifest"}, "MANIFEST_UNKNOWN"},
	{NotInRegistry, "docker", []string{"name unknown"}, "NAME_UNKNOWN"},
	{NotInRegistry, "docker", []string{"no matching manifest"}, "distribution/pull_v2.go: noMatchesErr"},
	{NotInRegistry, "docker", []string{"failed to resolve reference", ": not found"}, "Docker 29, containerd's client/pull.go: fetch"},
	{Denied, "docker", []string{"unauthorized"}, "UNAUTHORIZED"},
	{Denied, "docker", []string{"authentication required"}, "UNAUTHORIZED"},
	{Denied, "docker", []string{"no basic auth credentials"}, "registry client, auth.ErrNoBasicAuthCredentials"},
	{Denied, "docker", []string{"pull access denied"}, "DENIED, distribution/errors.go: notFoundError"},
	{Denied, "docker", []string{"requested access to the resource is denied"}, "DENIED"},
	{RateLimited, "docker", []string{"toomanyrequests"}, "TOOMANYREQUESTS"},

	{RegistryFailed, "docker", []string{"received unexpected http status: 5"}, "docker/distribution, registry/client/errors.go: UnexpectedHTTPStatusError"},
	{RegistryFailed, "docker", []string{"unexpected status from ", ": 5"}, "Docker 29, containerd's core/remotes/errors: ErrUnexpectedStatus"},
	{Spoiled, "docker", []string{"unexpected commit "}, "Docker 29, containerd's plugins/content/local/writer.go: Commit"},
	{Spoiled, "docker", []string{"layer verification failed"}, "distribution/pull_v2.go: Download"},
	{Spoiled, "docker", []string{"manifest verification failed"}, "distribution/pull_v2.go: schema2ManifestDigest"},
	{Spoiled, "docker", []string{"error unmarshalling content"}, "distribution/manifest, UnmarshalManifest"},
	{Spoiled, anyEngine, []string{"unexpected eof"}, "Go, io.ErrUnexpectedEOF"},

	// Go's network errors, as Docker passes them on.
	{PlainHTTP, "docker", []string{"server gave http response to https client"}, "net/http.ErrSchemeMismatch"},
	{Untrusted, "docker", []string{"x509:"}, "crypto/x509"},
	{Untrusted, "docker", []string{"tls:"}, "crypto/tls"},
	{RegistryUnreachable, "docker", []string{"dial tcp"}, "net.OpError"},
	{RegistryUnreachable, "docker", []string{"connection refused"}, "ECONNREFUSED, strerror(3)"},
	{RegistryUnreachable, "docker", []string{"no route to host"}, "EHOSTUNREACH, strerror(3)"},
	{RegistryUnreachable, "docker", []string{"no such host"}, "net.DNSError"},
	{RegistryUnreachable, "docker", []string{"i/o timeout"}, "os.ErrDeadlineExceeded"},
	{RegistryUnreachable, "docker", []string{"tls handshake timeout"}, "net/http.Transport"},
	{RegistryUnreachable, "docker", []string{"client.timeout"}, "net/http.Client"},
	{RegistryUnreachable, "docker", []string{"request canceled while waiting for connection"}, "net/http.Transport"},

	// Podman: https://github.com/containers/podman, and its libraries
	{Damaged, "podman", []string{"digest did not match"}, "go.podman.io/image, copy/digesting_reader.go: Read"},
	{Spoiled, "podman", []string{"digest did not match"}, "go.podman.io/image, copy/digesting_reader.go: Read"},

	// containerd: https://github.com/containerd/containerd
	{Forbidden, "containerd", []string{"dial unix", "permission denied"}, "google.golang.org/grpc, internal/transport/http2_client.go: NewHTTP2Client"},
	{Spoiled, "containerd", []string{"unexpected media type"}, "core/images/image.go: validateMediaType, Manifest"},
	{NotInRegistry, "containerd", []string{"no match for platform"}, "core/images/image.go: Manifest"},
	{MissingDevice, "containerd", []string{"error stating device path"}, "pkg/oci/utils_unix.go: getDevices"},
	{LogWriterFailed, "containerd", []string{"failed to start binary process"}, "cmd/containerd-shim-runc-v2/process/io.go: NewBinaryIO"},
}
