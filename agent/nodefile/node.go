// Package nodefile reads a node file: it checks every key and merges the file with
// its profile. It reports problems together, each with its file, line and key:
// unknown keys and wrong types first, then, if there are none, wrong values.
package nodefile

import (
	"time"

	"github.com/kollet/kollet/configs/report"
)

// Node is what a node should run: a node file merged with its profile.
type Node struct {
	Profile         string             `yaml:"profile" doc:"built-in services and templates: compute, or none"`
	Engine          string             `yaml:"engine" doc:"docker (default), containerd or podman"`
	Images          Images             `yaml:"images" doc:"where images come from"`
	Network         string             `yaml:"network" doc:"network of the compute profile: linuxbridge, openvswitch, ovn or none"`
	KeepGenerations int                `yaml:"keep_generations" doc:"how many earlier generations are kept for a rollback (default 3)"`
	Vars            map[string]any     `yaml:"vars" doc:"values for templates, as .vars.NAME"`
	Secrets         map[string]Secret  `yaml:"secrets" doc:"secret values, which only rendered files may contain"`
	OpenStack       *OpenStack         `yaml:"openstack" doc:"credentials with which kollet asks Nova and Neutron about this node; without them it does not"`
	Quiesce         Quiesce            `yaml:"quiesce" doc:"what happens to operations on servers that are under way when nova-compute or libvirt is about to be replaced"`
	Services        map[string]Service `yaml:"services" doc:"the node's services; every field overrides the profile's"`

	OwnVars   []string `yaml:"-"` // the Vars that the node file itself sets
	KnownVars []string `yaml:"-"` // the Vars that the profile has
	Hotfix    Hotfix   `yaml:"-"` // what of a Change differs from the node file
	FileTag   string   `yaml:"-"` // images.tag of the node file
	own, base *document
}

// Origin is where an entry of a list was written, for problems found later.
type Origin struct {
	report.Place
	Key string
}

// Images says where images come from.
type Images struct {
	Registry     string        `yaml:"registry" doc:"registry and path prepended to image names that have none"`
	Tag          string        `yaml:"tag" doc:"tag for image names that have none"`
	Archives     []string      `yaml:"archives" doc:"image archives, as paths or patterns such as /media/images/*.tar; a missing image is loaded from them before the registry is asked"`
	PullPolicy   string        `yaml:"pull_policy" doc:"missing (default): pull an image that is not on this machine; always: ask the registry at each upgrade; never: do not pull"`
	StallTimeout time.Duration `yaml:"stall_timeout" doc:"how long a registry may send nothing before a pull fails; 0s: no limit (default 2m)"`
}

// StallTimeout is the default of images.stall_timeout.
const StallTimeout = 2 * time.Minute

// Secret says where a secret's value is read from: exactly one field is set.
type Secret struct {
	File string `yaml:"file" doc:"path of a file that holds the value; a final newline is dropped"`
	Env  string `yaml:"env" doc:"environment variable of kollet that holds the value"`

	Credential string `yaml:"credential" doc:"name of a credential that systemd passes to kollet; a final newline is dropped"`
}

// Service is one container of the node.
type Service struct {
	Image       string            `yaml:"image" doc:"name, name:tag or name@sha256:…; images.registry and images.tag complete it"`
	InsteadOf   string            `yaml:"-"` // the image of the node file that a Change replaced
	Disabled    bool              `yaml:"disabled" doc:"do not run this service of the profile"`
	Entrypoint  []string          `yaml:"entrypoint" doc:"replaces the image's"`
	Command     []string          `yaml:"command" doc:"replaces the image's"`
	User        string            `yaml:"user" doc:"user, or user:group, that the service runs as; default: the image's"`
	WorkingDir  string            `yaml:"working_dir" doc:"working directory; default: the image's"`
	Environment map[string]string `yaml:"environment" doc:"environment variables, merged with the profile's"`

	Privileged  bool     `yaml:"privileged" doc:"all capabilities and devices"`
	PID         string   `yaml:"pid" doc:"PID namespace: host, or private (default)"`
	NetworkMode string   `yaml:"network_mode" doc:"network namespace: host (default), none or private"`
	IPC         string   `yaml:"ipc" doc:"IPC namespace: host, or private (default)"`
	Cgroup      string   `yaml:"cgroup" doc:"cgroup namespace: host, or private (default)"`
	ReadOnly    bool     `yaml:"read_only" doc:"read-only root file system"`
	CapAdd      []string `yaml:"cap_add" doc:"capabilities to add, such as NET_ADMIN"`
	CapDrop     []string `yaml:"cap_drop" doc:"capabilities to drop"`
	SecurityOpt []string `yaml:"security_opt" doc:"no-new-privileges; seccomp=unconfined, or seccomp=PATH of a profile on the host; apparmor=unconfined, or apparmor=NAME of a profile"`
	Devices     []string `yaml:"devices" doc:"device paths on the host"`
	Volumes     []Volume `yaml:"volumes" doc:"merged with the profile's by target"`
	Ulimits     []Ulimit `yaml:"ulimits" doc:"merged with the profile's by name"`

	Dimensions Dimensions `yaml:"dimensions" doc:"limits of what the service's processes use together, by kolla-ansible's names, merged with the profile's by key"`

	StopSignal      string        `yaml:"stop_signal" doc:"default: the image's, else SIGTERM"`
	StopGracePeriod time.Duration `yaml:"stop_grace_period" doc:"time to stop in before the service is killed (default 60s, or what version says)"`
	Restart         string        `yaml:"restart" doc:"always (default), unless-stopped (not after a manual stop) or no"`
	LogSize         string        `yaml:"log_size" doc:"size at which a log file is rotated, such as 10MiB"`
	LogFiles        int           `yaml:"log_files" doc:"how many rotated log files are kept"`

	DependsOn []string `yaml:"depends_on" doc:"services that must be healthy before this one is cut over"`
	Group     string   `yaml:"group" doc:"name of a group; services of one group are cut over as one"`

	ReplaceWithDependencies bool `yaml:"replace_with_dependencies" doc:"replace this service's container too when that of a service in depends_on is replaced"`

	Config      []ConfigFile `yaml:"config" doc:"merged with the profile's by dest"`
	Permissions []Permission `yaml:"permissions" doc:"owner and mode of paths in the container, set before the service starts"`
	Preload     *Preload     `yaml:"preload" doc:"imports the service's modules before its gate opens, so that it starts faster"`
	Warmup      []string     `yaml:"warmup" doc:"command run once while the container is staged, to fill the page cache; its failure is ignored"`
	Healthcheck []Probe      `yaml:"healthcheck" doc:"probes that must all succeed for the service to be healthy"`

	EngineHealthcheck EngineHealthcheck `yaml:"engine_healthcheck" doc:"health check that Docker runs, for tools that look at it: kollet does not"`

	Requires []Probe   `yaml:"requires" doc:"probes of what the service needs outside of the node, such as the message broker; they must all succeed before a cutover. A command runs in the new container, which waits at its gate; KOLLET_REPLACED in its environment lists the services that are replaced with this one. A probe whose value is empty on this node is left out"`
	Guests   *Guests   `yaml:"guests" doc:"set on the service that starts guests, with pid: host"`
	ListedAs *ListedAs `yaml:"listed_as" doc:"how Nova or Neutron lists the service; with the credentials of openstack, verify asks them whether it reports to them"`
	Problems []string  `yaml:"problems" doc:"command in the container that prints a line for each thing that is wrong with what the service provides, such as a port that is in no bridge; an upgrade that adds one that lasts for a minute is rolled back. It may take 30 seconds and print 1000 lines"`
	Version  []string  `yaml:"version" doc:"command in the container that prints the version of Nova; unless stop_grace_period is set, the service then gets the time that this version takes to stop gracefully"`
}

// Volume is a mount, written as a mapping, or in short as
// "SOURCE:TARGET[:OPTION,…]", where a source with a leading slash is a path on
// the host and any other a volume's name; options are ro and a propagation
// (shared, rslave, …).
type Volume struct {
	Origin `yaml:"-" json:"-"`

	Source      string `yaml:"source" doc:"path on the host, or name of a volume; empty: a tmpfs"`
	Target      string `yaml:"target" doc:"path in the container"`
	ReadOnly    bool   `yaml:"read_only" doc:"mount it read-only"`
	Propagation string `yaml:"propagation" doc:"of a host path: private (default), slave, shared, rprivate, rslave or rshared"`
	Size        string `yaml:"size" doc:"of a tmpfs, such as 64m (default half of the host's memory)"`
	Mode        string `yaml:"mode" doc:"of a tmpfs, such as \"0755\" (default that of the image's directory, else 1777)"`
}

// Ulimit is a resource limit of each process, named as in ulimit(1).
type Ulimit struct {
	Origin `yaml:"-" json:"-"`

	Name string `yaml:"name" doc:"nofile, memlock, nproc, …"`
	Soft int64  `yaml:"soft" doc:"-1: unlimited"`
	Hard int64  `yaml:"hard" doc:"-1: unlimited"`
}

// ConfigFile is a file, or what Source names, that is rendered once and installed once
// in the container. Exactly one of Template, Source and Content is set.
type ConfigFile struct {
	Origin `yaml:"-" json:"-"`

	Template  string   `yaml:"template" doc:"built-in template, or a file in the templates directory, which takes precedence"`
	Source    string   `yaml:"source" doc:"file or directory on the host, or a pattern such as /etc/ceph/*.keyring, copied unchanged; if it is empty on this node, nothing is copied"`
	Content   *string  `yaml:"content" doc:"a template, inline; \"\": an empty file"`
	Dest      string   `yaml:"dest" doc:"path in the container, which may contain variables; with a trailing slash, the directory into which source is copied"`
	Owner     string   `yaml:"owner" doc:"user, or user:group, in the container"`
	Perm      string   `yaml:"perm" doc:"mode, such as \"0600\"; directories can be entered by those who can read them"`
	Format    string   `yaml:"format" doc:"ini: overrides are merged key by key; text (default): the last override replaces the file"`
	Overrides []string `yaml:"overrides" doc:"paths in the overrides directory, later ones take precedence; {service} and {host} are replaced"`
	Optional  bool     `yaml:"optional" doc:"omit the file if its template renders to nothing, or its source does not exist"`

	OsloNamespaces []string `yaml:"oslo_namespaces" doc:"of an INI file that oslo.config reads: namespaces of the options that it may have. Before anything is stopped, oslo-config-validator in the new container names those that the image does not know"`

	Merge              bool `yaml:"merge" doc:"of a source: keep what else the image has in the directory; otherwise the image's directory is replaced"`
	PreserveProperties bool `yaml:"preserve_properties" doc:"of a source: keep its mode, numeric owner and time, instead of owner and perm; with merge also symbolic links"`
}

// Permission sets the owner and mode of a path in the container at start.
type Permission struct {
	Path    string   `yaml:"path" json:"path" doc:"may contain * and ?; with a trailing slash, a directory that is created if it is missing"`
	Owner   string   `yaml:"owner" json:"owner" doc:"user, or user:group, in the container"`
	Perm    string   `yaml:"perm" json:"perm" doc:"mode, such as \"0755\"; without it modes stay as they are"`
	Recurse bool     `yaml:"recurse" json:"recurse,omitempty" doc:"apply to everything below it too"`
	Exclude []string `yaml:"exclude" json:"exclude,omitempty" doc:"with recurse: regular expressions, searched in full paths; what all of them match is left alone"`
}

// Probe is one condition of health: exactly one of Exec, TCP, Unix, HTTP, AMQP and
// OVSDB is set.
type Probe struct {
	Origin `yaml:"-" json:"-"`

	Exec        []string      `yaml:"exec" json:"exec,omitempty" doc:"command in the container that exits 0"`
	TCP         string        `yaml:"tcp" json:"tcp,omitempty" doc:"HOST:PORT that accepts a connection"`
	Unix        string        `yaml:"unix" json:"unix,omitempty" doc:"socket in the container that accepts a connection"`
	HTTP        string        `yaml:"http" json:"http,omitempty" doc:"URL that answers with a status below 400"`
	AMQP        string        `yaml:"amqp" json:"amqp,omitempty" doc:"message broker that answers as AMQP 0-9-1 requires, as amqp://HOST:PORT, or amqps://HOST:PORT for TLS"`
	OVSDB       string        `yaml:"ovsdb" json:"ovsdb,omitempty" doc:"database of OVN or Open vSwitch of which a server answers, as tcp:HOST:PORT, or several separated by commas. Of one with ssl: instead, only that it accepts a connection: it answers nobody without a certificate"`
	CAFile      string        `yaml:"ca_file" json:"ca_file,omitempty" doc:"of https and amqps: file in the container with the certificate authorities. Default: for https those of the container and of the host; for amqps the certificate is not verified"`
	Interval    time.Duration `yaml:"interval" json:"interval" doc:"time between two attempts (default 1s)"`
	StartPeriod time.Duration `yaml:"start_period" json:"start_period" doc:"time in which the first attempt must succeed (default 60s; in requires 10s)"`
	Stable      time.Duration `yaml:"stable" json:"stable" doc:"time for which attempts must then keep succeeding (default 2s; not in requires)"`
	Timeout     time.Duration `yaml:"timeout" json:"timeout" doc:"time limit of one attempt (default 10s; in requires 5s)"`
}

// EngineHealthcheck is a command that the engine itself runs in the container, as root, also while
// the container waits at its gate.
type EngineHealthcheck struct {
	Test        []string      `yaml:"test" doc:"command in the container that exits 0; it is run as root"`
	Interval    time.Duration `yaml:"interval" doc:"time between two checks (default 30s)"`
	Timeout     time.Duration `yaml:"timeout" doc:"time limit of one check (default 30s)"`
	StartPeriod time.Duration `yaml:"start_period" doc:"time in which failures are ignored (default 0s)"`
	Retries     int           `yaml:"retries" doc:"failures in a row until the container is unhealthy (default 3)"`
}

// Preload says what a staged container loads before its gate opens.
type Preload struct {
	Python  bool     `yaml:"python" json:"python" doc:"the service is a Python script: its interpreter starts, and imports the modules that the script imports first"`
	Modules []string `yaml:"modules" json:"modules,omitempty" doc:"more modules to import; PACKAGE.* means all modules directly in a package; those that the image lacks are skipped"`
}

// Guests says how to ask a service about guests.
type Guests struct {
	List    []string `yaml:"list" json:"list" doc:"command in the container that prints the UUIDs of running guests, one per line"`
	Version []string `yaml:"version" json:"version,omitempty" doc:"command in the container that prints libvirt's version without starting it; an older libvirt than the one that runs is refused while guests run"`
	Jobs    []string `yaml:"jobs" json:"jobs,omitempty" doc:"command in the container that prints a line for each migration and block job under way: the guest's UUID, then what it is"`
	Protect *bool    `yaml:"protect" json:"protect,omitempty" doc:"false: let guests die with their libvirt (default true)"`
	Canary  Canary   `yaml:"canary" json:"canary,omitzero" doc:"a tiny guest that verify boots with a new libvirt and removes again"`
}

// Canary says how to boot a guest that proves that the service can. Its commands
// run in the service's container, with KOLLET_CANARY_NAME and KOLLET_CANARY_UUID in
// their environment.
type Canary struct {
	Enabled bool          `yaml:"enabled" json:"enabled,omitempty" doc:"boot it (default false); the upgrade is rolled back if it fails"`
	Start   []string      `yaml:"start" json:"start,omitempty" doc:"command in the container that starts a guest with the name $KOLLET_CANARY_NAME and the UUID $KOLLET_CANARY_UUID"`
	Output  []string      `yaml:"output" json:"output,omitempty" doc:"command in the container that prints what the guest wrote to its console"`
	Expect  string        `yaml:"expect" json:"expect,omitempty" doc:"text in the output that proves that the guest has booted"`
	Stop    []string      `yaml:"stop" json:"stop,omitempty" doc:"command in the container that removes the guest and its files; it succeeds if there are none"`
	Timeout time.Duration `yaml:"timeout" json:"timeout,omitempty" doc:"time in which the guest must boot (default 60s)"`
}
