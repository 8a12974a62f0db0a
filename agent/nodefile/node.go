// Package nodefile reads a node file: it checks every key, lays the operator's
// words over those of the profile, and reports all problems of a document
// together, each with its file, line and key.
package nodefile

import (
	"time"

	"github.com/kollet/kollet/configs/report"
)

// Node is what a node should run: a node file laid over its profile.
type Node struct {
	Profile  string             `yaml:"profile" doc:"built-in services and templates: compute, or none"`
	Engine   string             `yaml:"engine" doc:"docker (default) or containerd"`
	Images   Images             `yaml:"images" doc:"where images come from"`
	Network  string             `yaml:"network" doc:"network agent of the compute profile: linuxbridge, openvswitch or none"`
	Keep     int                `yaml:"keep" doc:"how many earlier generations stay ready for a rollback"`
	Vars     map[string]any     `yaml:"vars" doc:"values for templates, as .vars.NAME"`
	Secrets  map[string]Secret  `yaml:"secrets" doc:"values for templates that appear in rendered files alone"`
	Services map[string]Service `yaml:"services" doc:"the node's services; any field overrides the profile's"`

	OwnVars   []string `yaml:"-"` // those of Vars that the node file itself sets
	own, base *document
}

// Origin is where an entry of a list was written, for problems found later.
type Origin struct {
	report.Place
	Key string
}

// Images says where images come from.
type Images struct {
	Registry string   `yaml:"registry" doc:"registry and path put before image names without one"`
	Tag      string   `yaml:"tag" doc:"tag of images that name none"`
	Archives []string `yaml:"archives" doc:"image archives, as paths or patterns such as /media/images/*.tar, looked into before a registry is asked for an image that is absent"`
	Pull     string   `yaml:"pull" doc:"missing (default): only what is absent or newly named; always: ask the registry at each upgrade; never"`
}

// Secret says where a secret's value is read from: exactly one field is set.
type Secret struct {
	File string `yaml:"file" doc:"path whose content, less a final newline, is the value"`
	Env  string `yaml:"env" doc:"environment variable of kollet that holds the value"`
}

// Service is one container of the node.
type Service struct {
	Image       string            `yaml:"image" doc:"name, name:tag or name@sha256:…; images.registry and images.tag complete it"`
	Disabled    bool              `yaml:"disabled" doc:"leave this service of the profile out"`
	Entrypoint  []string          `yaml:"entrypoint" doc:"replaces the image's"`
	Command     []string          `yaml:"command" doc:"replaces the image's"`
	User        string            `yaml:"user" doc:"user, or user:group, that the service runs as; default: the image's"`
	WorkDir     string            `yaml:"workdir" doc:"working directory; default: the image's"`
	Environment map[string]string `yaml:"environment" doc:"merged over the profile's"`

	Privileged bool     `yaml:"privileged" doc:"all capabilities and devices"`
	PID        string   `yaml:"pid" doc:"host, or private (default)"`
	Network    string   `yaml:"network" doc:"host (default), none or private"`
	IPC        string   `yaml:"ipc" doc:"host, or private (default)"`
	CgroupNS   string   `yaml:"cgroupns" doc:"host, or private (default)"`
	ReadOnly   bool     `yaml:"read_only" doc:"read-only root file system"`
	CapAdd     []string `yaml:"cap_add" doc:"capabilities, such as NET_ADMIN"`
	CapDrop    []string `yaml:"cap_drop" doc:"likewise, taken away"`
	Devices    []string `yaml:"devices" doc:"device paths on the host"`
	Mounts     []Mount  `yaml:"mounts" doc:"merged with the profile's by target"`
	Ulimits    []Ulimit `yaml:"ulimits" doc:"merged with the profile's by name"`

	StopSignal string        `yaml:"stop_signal" doc:"default: the image's, else SIGTERM"`
	StopGrace  time.Duration `yaml:"stop_grace" doc:"how long it may take to stop before it is killed"`
	Restart    string        `yaml:"restart" doc:"always (default), unless-stopped (not when it was stopped by hand) or no"`
	LogSize    string        `yaml:"log_size" doc:"size at which a log file is rotated, such as 10MiB"`
	LogFiles   int           `yaml:"log_files" doc:"how many rotated log files are kept"`

	After    []string     `yaml:"after" doc:"services that start, and answer, before this one"`
	Together []string     `yaml:"together" doc:"services cut over as one with this one"`
	Config   []ConfigFile `yaml:"config" doc:"merged with the profile's by dest"`
	Prepare  []Path       `yaml:"prepare" doc:"owner and mode of paths inside the container, set before the service starts"`
	Warm     []string     `yaml:"warm" doc:"command run once while staged, to fill the page cache; its failure is ignored"`
	Health   []Probe      `yaml:"health" doc:"what must hold for the service to be healthy"`
	Guests   *Guests      `yaml:"guests" doc:"set on the service that starts guests"`
}

// Mount is written as in YAML, or in short as "SOURCE:TARGET[:OPTION,…]", where
// a source with a leading slash is a path on the host and any other a volume;
// options are ro and a propagation (shared, rslave, …).
type Mount struct {
	Origin `yaml:"-" json:"-"`

	Source      string `yaml:"source" doc:"path on the host, or name of a volume; empty: a tmpfs"`
	Target      string `yaml:"target" doc:"path in the container"`
	ReadOnly    bool   `yaml:"read_only" doc:"the container cannot write there"`
	Propagation string `yaml:"propagation" doc:"of a host path: private (default), slave, shared, or with a leading r"`
}

// Ulimit is a resource limit, named as in ulimit(1).
type Ulimit struct {
	Origin `yaml:"-" json:"-"`

	Name string `yaml:"name" doc:"nofile, memlock, nproc, …"`
	Soft int64  `yaml:"soft" doc:"-1: unlimited"`
	Hard int64  `yaml:"hard" doc:"-1: unlimited"`
}

// ConfigFile is a file rendered once and applied once inside the container.
// Exactly one of Template, Source and Content says what is in it.
type ConfigFile struct {
	Origin `yaml:"-" json:"-"`

	Template  string   `yaml:"template" doc:"built-in template, or a file below the templates directory, which wins"`
	Source    string   `yaml:"source" doc:"path on the host, copied as it is"`
	Content   string   `yaml:"content" doc:"a template, inline"`
	Dest      string   `yaml:"dest" doc:"path in the container"`
	Owner     string   `yaml:"owner" doc:"user, or user:group, in the container"`
	Perm      string   `yaml:"perm" doc:"mode, such as \"0600\""`
	Format    string   `yaml:"format" doc:"ini: overrides are merged key by key; text (default): the last override replaces the file"`
	Overrides []string `yaml:"overrides" doc:"paths below the overrides directory, later ones win; {service} and {host} are replaced"`
	Optional  bool     `yaml:"optional" doc:"leave the file out when its template renders to nothing"`
}

// Path is a path inside the container whose owner and mode are set at start.
type Path struct {
	Path    string `yaml:"path" doc:"may hold * and ?; with a slash at its end, a directory that is made where it is missing"`
	Owner   string `yaml:"owner" doc:"user, or user:group, in the container"`
	Perm    string `yaml:"perm" doc:"mode, such as \"0755\""`
	Recurse bool   `yaml:"recurse" doc:"also everything below it"`
}

// Probe is one condition of health: exactly one of Exec, TCP, Unix and HTTP.
type Probe struct {
	Origin `yaml:"-" json:"-"`

	Exec   []string      `yaml:"exec" doc:"command in the container that exits 0"`
	TCP    string        `yaml:"tcp" doc:"HOST:PORT that accepts a connection"`
	Unix   string        `yaml:"unix" doc:"socket in the container that accepts a connection"`
	HTTP   string        `yaml:"http" doc:"URL that answers with a status below 400"`
	Every  time.Duration `yaml:"every" doc:"pause between two tries (default 1s)"`
	Within time.Duration `yaml:"within" doc:"how long the first success may take (default 60s)"`
	Stable time.Duration `yaml:"stable" doc:"how long it must go on succeeding (default 2s)"`
	Limit  time.Duration `yaml:"limit" doc:"how long one try may take (default 10s)"`
}

// Guests says how to ask a service for the guests that it knows.
type Guests struct {
	List    []string `yaml:"list" doc:"command in the container that prints the UUIDs of running guests, one a line"`
	Protect *bool    `yaml:"protect" doc:"false: let guests die with their libvirt (default true)"`
}
