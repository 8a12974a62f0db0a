package failure

import (
	"fmt"
	"syscall"

	"github.com/kollet/kollet/containers"
)

// Kind is what an error means.
type Kind string

// The kinds of failures. Unknown is any other error.
const (
	Unknown Kind = ""

	// The engine and the host.
	Unreachable     Kind = "engine unreachable"
	Forbidden       Kind = "no permission to use the engine"
	NotFound        Kind = "not found"     // an image or a container, on this host
	MissingImage    Kind = "missing image" // not found, and needed to create a container
	NameTaken       Kind = "name taken"
	BeingRemoved    Kind = "container being removed"
	MissingSource   Kind = "missing source of a bind mount"
	MissingDevice   Kind = "missing device"
	NotShared       Kind = "mount point not shared"
	DiskFull        Kind = "disk full"
	LimitRefused    Kind = "resource limit refused"
	CapsRefused     Kind = "capabilities refused"
	CgroupRefused   Kind = "cgroup's limits refused"
	SeccompRefused  Kind = "seccomp profile refused"
	AppArmorRefused Kind = "profile of AppArmor refused"
	LogWriterFailed Kind = "log writer not started"

	// Registries.
	NotInRegistry       Kind = "not in the registry"
	Denied              Kind = "registry denied access"
	PlainHTTP           Kind = "registry without TLS"
	Untrusted           Kind = "certificate not trusted"
	RateLimited         Kind = "too many pulls"
	RegistryUnreachable Kind = "registry unreachable"
	RegistryFailed      Kind = "registry failed"
	Spoiled             Kind = "damaged on its way"

	// Image archives.
	UnknownFormat Kind = "unknown archive format"
	Damaged       Kind = "damaged archive"
)

// The kinds with which operations can fail, in the order in which an error is
// compared with them: it may match several, such as a registry's denial with the
// status "not found".
var (
	engineKinds = []Kind{Forbidden, Unreachable, MissingSource, NotShared, DiskFull, MissingDevice, NameTaken,
		BeingRemoved, MissingImage, LimitRefused, CapsRefused, AppArmorRefused, SeccompRefused, CgroupRefused, LogWriterFailed, NotFound}
	pullKinds = []Kind{Forbidden, Unreachable, NotInRegistry, Denied, PlainHTTP, Untrusted, RateLimited, RegistryUnreachable,
		DiskFull, RegistryFailed, Spoiled, NotFound}
	// Docker's client also reports an unreachable engine if the archive that it
	// sends ends early, so Damaged is first.
	loadKinds = []Kind{UnknownFormat, Damaged, Forbidden, Unreachable, DiskFull, NotFound}
)

// meaning describes a kind for users and callers.
type meaning struct {
	is      error                                  // errors.Is finds it
	meaning func(e Engine, registry string) string // precedes the cause
	alone   bool                                   // the cause adds nothing to the meaning
	remedy  func(e Engine, registry string) string
}

var meanings = map[Kind]meaning{
	Unreachable: {is: containers.ErrUnreachable, meaning: unreachable, remedy: func(e Engine, _ string) string { return e.Start }},
	Forbidden:   {is: containers.ErrUnreachable, meaning: unreachable, remedy: always("run kollet as root")},

	NotFound:     {is: containers.ErrNotFound},
	MissingImage: {is: containers.ErrNotFound, remedy: always("pull it first")},
	NameTaken:    {remedy: always("remove that container, or rename it")},

	BeingRemoved:  {},
	MissingSource: {remedy: always("create it")},
	MissingDevice: {remedy: always("check that the device exists on this host")},
	NotShared:     {remedy: always("make it shared: mount --make-rshared on the mount point named above, usually /")},
	DiskFull:      {is: syscall.ENOSPC, remedy: func(e Engine, _ string) string { return "free disk space where " + e.Space }},

	LimitRefused: {remedy: func(e Engine, _ string) string {
		return fmt.Sprintf("allow %s higher limits (CAP_SYS_RESOURCE, or LimitNOFILE= and LimitMEMLOCK= in its unit), or lower the ulimits of the service", e.Name)
	}},
	CapsRefused: {remedy: func(e Engine, _ string) string { return e.Caps() }},
	CgroupRefused: {
		meaning: func(Engine, string) string { return "a limit of its cgroup cannot be set" },
		remedy:  always("correct the dimensions of the service, or remove what this host cannot limit"),
	},
	SeccompRefused: {
		meaning: func(Engine, string) string { return "its seccomp profile is refused" },
		remedy:  always("correct the profile that security_opt of the service names"),
	},
	AppArmorRefused: {
		meaning: func(Engine, string) string { return "its profile of AppArmor cannot be used" },
		remedy:  always("load the profile with apparmor_parser, or correct apparmor= in security_opt of the service"),
	},
	LogWriterFailed: {remedy: always("the program that writes logs is kollet itself: restore it where it was when the container was started, " +
		"and start the container with kollet")},

	NotInRegistry: {
		is:      containers.ErrNotFound,
		meaning: func(_ Engine, registry string) string { return "not found in registry " + registry },
		remedy:  always("check the image's name and tag there"),
	},
	Denied: {
		meaning: func(_ Engine, registry string) string { return fmt.Sprintf("registry %s denied access", registry) },
		remedy:  func(_ Engine, registry string) string { return login(registry) + ", or check the image's name" },
	},
	PlainHTTP: {
		meaning: func(e Engine, registry string) string {
			return fmt.Sprintf("registry %s uses plain HTTP, which %s does not trust", registry, e.Puller)
		},
		alone:  true,
		remedy: func(e Engine, registry string) string { return e.AllowHTTP(registry) },
	},
	Untrusted: {
		meaning: func(e Engine, registry string) string {
			return fmt.Sprintf("%s does not trust the certificate of registry %s", e.Puller, registry)
		},
		remedy: func(e Engine, registry string) string { return e.TrustCA(registry) },
	},
	RateLimited: {
		meaning: func(_ Engine, registry string) string { return fmt.Sprintf("registry %s limits pulls", registry) },
		remedy:  func(_ Engine, registry string) string { return login(registry) + ", or wait" },
	},
	RegistryUnreachable: {
		is:      containers.ErrRegistryUnreachable,
		meaning: func(_ Engine, registry string) string { return fmt.Sprintf("registry %s cannot be reached", registry) },
		remedy:  always("check its name, that it is running, and the network"),
	},

	RegistryFailed: {
		meaning: func(_ Engine, registry string) string { return fmt.Sprintf("registry %s failed", registry) },
		remedy:  always("look at its log, and at that of any proxy before it, then run the command again"),
	},
	Spoiled: {
		meaning: func(_ Engine, registry string) string {
			return fmt.Sprintf("what registry %s sent is incomplete or damaged", registry)
		},
		remedy: always("run the command again; if that does not help, check the registry and any proxy before it"),
	},

	UnknownFormat: {
		meaning: func(e Engine, _ string) string {
			return "this version of " + e.Name + " cannot read the archive's format"
		},
		alone:  true,
		remedy: always("write it with docker save, or with skopeo copy to docker-archive"),
	},
	Damaged: {
		meaning: func(Engine, string) string { return "the archive is damaged" },
		remedy:  always("copy it again"),
	},
}

func always(remedy string) func(Engine, string) string {
	return func(Engine, string) string { return remedy }
}

func unreachable(e Engine, _ string) string {
	return fmt.Sprintf("%s at %s cannot be reached", e.Name, e.Address)
}

func login(registry string) string { return "log in with docker login " + registry }
