package adopt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/containers"
)

// engine has containers, and the images of a registry by reference and by id.
type engine struct {
	containers.Engine
	name   string
	all    []containers.Container
	images map[string]containers.Image
}

func (e engine) Info(context.Context) (containers.Info, error) {
	return containers.Info{Name: e.name}, nil
}

func (e engine) List(context.Context, map[string]string) ([]containers.Container, error) {
	return slices.Clone(e.all), nil
}

func (e engine) Image(_ context.Context, ref string) (containers.Image, error) {
	if image, ok := e.images[ref]; ok {
		return image, nil
	}
	return containers.Image{}, fmt.Errorf("image %s: %w", ref, containers.ErrNotFound)
}

const registry = "registry.example.com:5000/openstack.kolla/"

// kolla is a container as kolla-ansible makes it, with its config.json, and its image.
func (e *engine) kolla(t *testing.T, name, configJSON string, change func(*containers.Container)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), ServiceName(name))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if configJSON != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(configJSON), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ref, id := registry+ServiceName(name)+":2025.1", "sha256:"+fmt.Sprintf("%064x", len(name)*1000+int(name[0]))
	image := containers.Image{ID: id, Digest: registry + ServiceName(name) + "@" + id, Entrypoint: []string{"dumb-init", "--single-child", "--"}, Command: []string{"kolla_start"}}
	if e.images == nil {
		e.images = map[string]containers.Image{}
	}
	e.images[ref], e.images[id] = image, image
	c := containers.Container{ID: "id of " + name, ImageID: id, State: containers.StateRunning, Started: time.Now(), Spec: containers.Spec{
		Name: name, Image: ref, NetworkMode: "host", Restart: containers.RestartNo,
		Env: map[string]string{"KOLLA_CONFIG_STRATEGY": "COPY_ALWAYS", "KOLLA_SERVICE_NAME": strings.ReplaceAll(name, "_", "-"), "TZ": "UTC"},
		Mounts: []containers.Mount{
			{Type: containers.Bind, Source: dir, Target: "/var/lib/kolla/config_files", ReadOnly: true},
			{Type: containers.Volume, Source: "kolla_logs", Target: "/var/log/kolla"},
		},
	}}
	if change != nil {
		change(&c)
	}
	e.all = append(e.all, c)
}

const plainConfig = `{"command": "/usr/bin/run --it"}`

// read proposes a node file and, if nothing blocks it, reads the services that it has.
func (e engine) read(t *testing.T, opts Options) (Proposal, map[string]nodefile.Service) {
	t.Helper()
	if e.name == "" {
		e.name = "docker"
	}
	p, err := Read(t.Context(), &node.Node{Name: "compute-1", Root: t.TempDir(), Engine: e, Host: host.Real()}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Blocked) > 0 {
		return p, nil
	}
	parsed, err := nodefile.Parse("node.yaml", []byte(p.NodeFile), configs.Profile, nodefile.Change{})
	if err != nil {
		t.Fatalf("%v\n%s", err, p.NodeFile)
	}
	return p, parsed.Services
}

// A whole compute node, with everything that kolla-ansible sets.
func TestComputeNode(t *testing.T) {
	var e engine
	e.kolla(t, "nova_libvirt", `{
  "command": "/usr/local/bin/kolla_nova_libvirt_start",
  "config_files": [
    {"source": "/var/lib/kolla/config_files/libvirtd.conf", "dest": "/etc/libvirt/libvirtd.conf", "owner": "root", "perm": "0600"},
    {"source": "/var/lib/kolla/config_files/secrets", "dest": "/etc/libvirt/secrets", "owner": "root", "perm": "600", "optional": true, "merge": true},
    {"source": "/var/lib/kolla/config_files/ceph/*", "dest": "/etc/ceph/", "preserve_properties": true}
  ],
  "permissions": [{"path": "/var/log/kolla/libvirt", "owner": "root:kolla", "recurse": true, "exclude": ["/x$"]}],
  "directories": [{"path": "/var/log/kolla/libvirt", "owner": "root:kolla", "perm": "2755"}]
}`, func(c *containers.Container) {
		c.Spec.Privileged, c.Spec.PID, c.Spec.Cgroup = true, "host", "host"
		c.Spec.Mounts = append(c.Spec.Mounts,
			containers.Mount{Type: containers.Bind, Source: "/run", Target: "/run", Propagation: "shared"},
			containers.Mount{Type: containers.Bind, Source: "/lib/modules", Target: "/lib/modules", ReadOnly: true},
			containers.Mount{Type: containers.Volume, Source: "nova_compute", Target: "/var/lib/nova"},
			containers.Mount{Type: containers.Tmpfs, Target: "/scratch", Size: 64 << 20, Mode: "0755"})
		c.Spec.Ulimits = []containers.Ulimit{{Name: "memlock", Soft: 67108864, Hard: 67108864}}
		c.Spec.Dimensions = containers.Dimensions{MemLimit: 4 << 30, CpusetCpus: "0-3", CPUShares: 512}
		c.Spec.Healthcheck = containers.Healthcheck{Test: []string{"CMD-SHELL", "virsh version --daemon"}, Interval: 30 * time.Second, Timeout: 30 * time.Second, StartPeriod: 5 * time.Second, Retries: 3}
	})
	e.kolla(t, "nova_compute", plainConfig, func(c *containers.Container) {
		c.Spec.Privileged, c.Spec.IPC, c.Spec.Restart = true, "host", containers.RestartUnlessStopped
		c.Spec.Env["LIBGUESTFS_BACKEND"] = "direct"
		c.Spec.Labels = map[string]string{"site": "one"}
		c.Spec.Healthcheck = containers.Healthcheck{Test: []string{"CMD-SHELL", "healthcheck_port nova-compute 5672 || exit 1"}, Timeout: 30 * time.Second}
	})
	e.kolla(t, "openvswitch_db", plainConfig, nil)
	e.kolla(t, "kolla_toolbox", plainConfig, nil)
	e.kolla(t, "mariadb", plainConfig, nil)
	e.all = append(e.all, containers.Container{ID: "x", Spec: containers.Spec{Name: "telegraf"}})

	p, services := e.read(t, Options{})
	if len(p.Blocked) > 0 {
		t.Fatalf("blocked: %v", p.Blocked)
	}
	profile, err := profiled()
	if err != nil {
		t.Fatal(err)
	}
	libvirt, nova, ovs := services["nova-libvirt"], services["nova-compute"], services["openvswitch-db-server"]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"services", len(services), 3},
		{"image", libvirt.Image, registry + "nova-libvirt:2025.1"},
		{"command", libvirt.Command, []string{"/usr/local/bin/kolla_nova_libvirt_start"}},
		{"modes", []any{libvirt.Privileged, libvirt.PID, libvirt.Cgroup, libvirt.NetworkMode, libvirt.IPC, nova.IPC}, []any{true, "host", "host", "host", "private", "host"}},
		{"environment", fmt.Sprint(libvirt.Environment, nova.Environment, ovs.Environment), "map[TZ:UTC] map[LIBGUESTFS_BACKEND:direct TZ:UTC] map[KOLLA_SERVICE_NAME:openvswitch-db TZ:UTC]"},
		{"volumes", volumes(libvirt), "kolla_logs:/var/log/kolla /run:/run:shared /lib/modules:/lib/modules:ro nova_compute:/var/lib/nova tmpfs /scratch 64m 0755"},
		{"ulimits", fmt.Sprint(libvirt.Ulimits[0].Name, libvirt.Ulimits[0].Hard), "memlock67108864"},
		{"dimensions", libvirt.Dimensions, nodefile.Dimensions{MemLimit: "4g", CpusetCpus: "0-3", CPUShares: 512}},
		{"permissions", fmt.Sprint(libvirt.Permissions), "[{/var/log/kolla/libvirt/ root:kolla 2755 false []} {/var/log/kolla/libvirt root:kolla  true [/x$]}]"},
		{"probe", libvirt.Healthcheck[0].Exec, []string{"virsh", "version", "--daemon"}},
		{"probe with a shell", nova.Healthcheck[0].Exec, []string{"/bin/sh", "-c", "healthcheck_port nova-compute 5672 || exit 1"}},
		{"engine's check", fmt.Sprint(libvirt.EngineHealthcheck), "{[virsh version --daemon] 30s 30s 5s 3}"},
		{"restart", []string{libvirt.Restart, nova.Restart}, []string{"always", "unless-stopped"}},
		{"order", nova.DependsOn, []string{"nova-libvirt"}},
		{"groups", []string{libvirt.Group, nova.Group, ovs.Group}, []string{"nova", "nova", ""}},
		{"guests", libvirt.Guests.Jobs, profile["nova-libvirt"].Guests.Jobs}, // with a script of many lines
	} {
		if fmt.Sprintf("%#v", c.got) != fmt.Sprintf("%#v", c.want) {
			t.Errorf("%s: %#v, want %#v\n%s", c.what, c.got, c.want, p.NodeFile)
		}
	}
	var files []string
	for _, f := range libvirt.Config {
		dir, name := filepath.Split(f.Source)
		files = append(files, fmt.Sprint(filepath.Base(dir), "/", name, " ", f.Dest, " ", f.Owner, " ", f.Perm, f.Optional, f.Merge, f.PreserveProperties))
	}
	if want := []string{
		"nova-libvirt/libvirtd.conf /etc/libvirt/libvirtd.conf root 0600false false false",
		"nova-libvirt/secrets /etc/libvirt/secrets root 0600true true false",
		"ceph/* /etc/ceph/  false false true",
	}; !slices.Equal(files, want) {
		t.Errorf("config: %q", files)
	}
	for _, want := range []string{
		"images: {registry: registry.example.com:5000/openstack.kolla, tag: \"2025.1\"}\n", "    image: nova-compute\n",
		"# - kolla_toolbox: kolla-ansible itself runs its modules in it; --include kolla_toolbox",
		"# - mariadb: not one of a compute node's services",
		"# - nova_compute: it loses the labels site\n",
		"# - openvswitch_db: it has no health check",
	} {
		if !strings.Contains(p.NodeFile, want) {
			t.Errorf("no %q in:\n%s", want, p.NodeFile)
		}
	}
	if strings.Contains(p.NodeFile, "telegraf") {
		t.Errorf("a container that is not kolla-ansible's:\n%s", p.NodeFile)
	}
}

func volumes(s nodefile.Service) string {
	var all []string
	for _, v := range s.Volumes {
		if short := shortVolume(v); short != "" {
			all = append(all, short)
		} else {
			all = append(all, "tmpfs "+v.Target+" "+v.Size+" "+v.Mode)
		}
	}
	return strings.Join(all, " ")
}

// What cannot be taken over is named, with what to do.
func TestBlocked(t *testing.T) {
	set := func(change func(*containers.Spec)) func(*containers.Container) {
		return func(c *containers.Container) { change(&c.Spec) }
	}
	for _, c := range []struct {
		name, container, config string
		change                  func(*containers.Container)
		want                    string
	}{
		{"it does not run", "nova_compute", plainConfig, func(c *containers.Container) { c.State, c.ExitCode = containers.StateExited, 3 }, "it does not run: it is exited, with exit status 3; repair it first"},
		{"it is unhealthy", "nova_compute", plainConfig, func(c *containers.Container) { c.Unhealthy = true }, "nova_compute: it is unhealthy; `docker inspect"},
		{"it crashes", "nova_compute", plainConfig, func(c *containers.Container) { c.Restarts, c.Started = 3, time.Now() }, "it exits repeatedly: restarting (3 restarts, the last one "},
		{"it is removed when it stops", "nova_compute", plainConfig, func(c *containers.Container) { c.Extra = []string{"rm"} }, "Docker removes it when it stops (--rm)"},
		{"a volume without a name", "nova_compute", plainConfig, func(c *containers.Container) { c.Anonymous = []string{"/data"} }, "it has a volume without a name at /data"},
		{"no config.json", "nova_compute", "", nil, "config.json: no such file or directory; run `kolla-ansible genconfig`"},
		{"a config.json that is none", "nova_compute", "{", nil, "unexpected end of JSON input"},
		{"no command", "nova_compute", `{"command": " "}`, nil, "it has no command"},
		{"a file from elsewhere", "nova_compute", `{"command": "x", "config_files": [{"source": "/opt/x", "dest": "/x", "owner": "root", "perm": "0600"}]}`, nil, "config.json copies /opt/x, which is not below /var/lib/kolla/config_files"},
		{"a file beside its own", "nova_compute", `{"command": "x", "config_files": [{"source": "/var/lib/kolla/config_files/../x", "dest": "/x", "owner": "root", "perm": "0600"}]}`, nil, "config.json copies /var/lib/kolla/config_files/../x, which is not below /var/lib/kolla/config_files"},
		{"text that would be a template", "nova_compute", plainConfig, set(func(s *containers.Spec) { s.Env["FORMAT"] = "{{.ID}}" }), "FORMAT, contains {{, which begins a template in a node file; write the node file yourself"},
		{"its directory itself", "nova_compute", `{"command": "x", "config_files": [{"source": "/var/lib/kolla/config_files", "dest": "/x", "owner": "root", "perm": "0600"}]}`, nil, "config.json copies /var/lib/kolla/config_files, which is not below /var/lib/kolla/config_files"},
		{"an empty file", "nova_compute", `{"command": "x", "files": [{"path": "/var/lib/nova/x", "owner": "nova", "perm": "0600"}]}`, nil, "config.json creates the empty file /var/lib/nova/x"},
		{"an owner by number", "nova_compute", `{"command": "x", "permissions": [{"path": "/var/lib/nova", "owner": "42436", "perm": "0755"}]}`, nil, `services.nova-compute.permissions[0].owner: expected a user or user:group of the image, by name, got "42436"`},
		{"the network of another container", "nova_compute", plainConfig, set(func(s *containers.Spec) { s.NetworkMode = "container:abc" }), `services.nova-compute.network_mode: expected one of host, none, private, got "container:abc"`},
		{"guests in a namespace of their own", "nova_libvirt", plainConfig, nil, "in a private PID namespace guests die with the service"},
		{"an unknown kind of mount", "nova_compute", plainConfig, set(func(s *containers.Spec) {
			s.Mounts = append(s.Mounts, containers.Mount{Type: "cluster", Source: "v", Target: "/x"})
		}), `it has a mount of the type "cluster" at /x`},
		{"a device under another name", "nova_compute", plainConfig, set(func(s *containers.Spec) {
			s.Devices = []string{"/dev/sda:/dev/sdb:rwm"}
		}), "it has the device /dev/sda:/dev/sdb:rwm"},
		{"a seccomp profile", "nova_compute", plainConfig, set(func(s *containers.Spec) { s.Security.Seccomp = "{}" }), "it has a seccomp profile"},
		{"an image that does not start as Kolla's", "nova_compute", plainConfig, func(c *containers.Container) { c.ImageID = "other" }, `its image starts "/sbin/init", not kolla_start`},
		{"an image without a name", "nova_compute", plainConfig, func(c *containers.Container) { c.ImageID = "nameless" }, "its image has no name: "},
		{"a command of its own", "nova_compute", plainConfig, set(func(s *containers.Spec) { s.Command = []string{"sleep", "1"} }), `it was created with a command of its own, "sleep 1"`},
		{"no config files", "nova_compute", plainConfig, set(func(s *containers.Spec) { s.Mounts = nil }), "nothing is mounted at /var/lib/kolla/config_files"},
		{"wrappers", "nova_compute", plainConfig, set(func(s *containers.Spec) { s.Env["KOLLA_NEUTRON_WRAPPERS"] = "true" }), "it starts containers of its own"},
		{"users of libvirt", "nova_libvirt", `{"command": "x", "config_files": [{"source": "/var/lib/kolla/config_files/sasl.conf", "dest": "/etc/sasl2/libvirt.conf", "owner": "root", "perm": "0600"}]}`, set(func(s *containers.Spec) { s.PID = "host" }), "the users who may log in to libvirt are in this container alone; run `docker cp nova_libvirt:/etc/libvirt/passwd.db "},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := engine{images: map[string]containers.Image{
				"other":    {ID: "other", Digest: "a@sha256:" + strings.Repeat("0", 64), Command: []string{"/sbin/init"}},
				"nameless": {ID: "nameless", Command: []string{"kolla_start"}},
			}}
			e.kolla(t, c.container, c.config, c.change)
			p, _ := e.read(t, Options{})
			if len(p.Blocked) != 1 || !strings.Contains(p.Blocked[0].String(), c.want) {
				t.Errorf("blocked: %v\nwant %s", p.Blocked, c.want)
			}
			if !strings.Contains(p.NodeFile, "# Not possible, because of:\n# - ") {
				t.Errorf("the node file does not say it:\n%s", p.NodeFile)
			}
			if err := p.Write(&node.Node{Root: t.TempDir()}); err == nil {
				t.Error("it was written")
			}
		})
	}
}

// The users of libvirt are taken over once they are beside its configuration.
func TestUsersOfLibvirt(t *testing.T) {
	var e engine
	e.kolla(t, "nova_libvirt", `{"command": "x", "config_files": [{"source": "/var/lib/kolla/config_files/sasl.conf", "dest": "/etc/sasl2/libvirt.conf", "owner": "root", "perm": "0600"}]}`,
		func(c *containers.Container) { c.Spec.PID = "host" })
	copied := filepath.Join(e.all[0].Spec.Mounts[0].Source, "passwd.db")
	if err := os.WriteFile(copied, []byte("users"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, services := e.read(t, Options{})
	if config := services["nova-libvirt"].Config; len(config) != 2 || config[1].Source != copied || config[1].Dest != "/etc/libvirt/passwd.db" {
		t.Errorf("%+v", config)
	}
}

// The image that runs is taken over, whatever its tag means by now.
func TestMovedTag(t *testing.T) {
	var e engine
	e.kolla(t, "nova_compute", plainConfig, nil)
	e.images[e.all[0].Spec.Image] = containers.Image{ID: "newer"}
	p, services := e.read(t, Options{})
	if got := services["nova-compute"].Image; got != e.images[e.all[0].ImageID].Digest {
		t.Errorf("image: %s", got)
	}
	if !strings.Contains(p.NodeFile, "its image is named by its digest: "+e.all[0].Spec.Image+" is another image by now") {
		t.Error(p.NodeFile)
	}
}

func TestChoice(t *testing.T) {
	var e engine
	for _, name := range []string{"nova_compute", "nova_ssh", "cron", "keystone"} {
		e.kolla(t, name, plainConfig, nil)
	}
	e.all = append(e.all, containers.Container{Spec: containers.Spec{Name: "nova-compute", Env: map[string]string{node.ServiceVariable: "nova-compute"}, Labels: map[string]string{node.LabelNode: "/var/lib/kollet"}}})
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{}, "nova-compute nova-ssh"},
		{Options{Exclude: []string{"nova_ssh"}}, "nova-compute"},
		{Options{Include: []string{"cron", "keystone"}, Exclude: []string{"nova_ssh"}}, "cron keystone nova-compute"},
	} {
		_, services := e.read(t, c.opts)
		var names []string
		for name := range services {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.opts, got, c.want)
		}
	}
	p, _ := e.read(t, Options{Exclude: []string{"nova_ssh", "nova_compute"}})
	if len(p.Blocked) == 0 || p.Blocked[0].Text != "no container is left to take over" {
		t.Errorf("%+v", p.Blocked)
	}
}

func TestRefused(t *testing.T) {
	var e engine
	e.kolla(t, "nova_compute", plainConfig, nil)
	for _, c := range []struct {
		name string
		e    engine
		opts Options
		want string
	}{
		{"no containers", engine{name: "docker"}, Options{}, "this engine has no containers of kolla-ansible"},
		{"another engine", engine{name: "containerd"}, Options{}, "cannot be taken over on containerd"},
		{"a name that nothing has", engine{name: "docker", all: e.all, images: e.images}, Options{Exclude: []string{"nova_computer"}}, "--exclude nova_computer: kolla-ansible has no such container on this node; did you mean nova_compute?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(t.Context(), &node.Node{Engine: c.e, Host: host.Real()}, c.opts)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	var e engine
	e.kolla(t, "nova_compute", plainConfig, nil)
	p, _ := e.read(t, Options{})
	n := &node.Node{Root: t.TempDir()}
	if err := p.Write(n); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(n.NodeFilePath()); string(got) != p.NodeFile {
		t.Errorf("%v: %s", err, got)
	}
	var input node.BadInput
	if err := p.Write(n); !errors.As(err, &input) || !strings.Contains(err.Error(), "is there already, and is not replaced") {
		t.Errorf("%v", err)
	}
}

func TestNames(t *testing.T) {
	for _, name := range slices.Concat(compute, []string{"cron"}) {
		if back := ContainerName(ServiceName(name)); back != name {
			t.Errorf("%s becomes %s, and that %s", name, ServiceName(name), back)
		}
	}
}

// What a proposed node file cannot say does not matter to a node that has one. What its containers
// lose does.
func TestOwnNodeFile(t *testing.T) {
	e := engine{name: "docker"}
	e.kolla(t, "nova_compute", plainConfig, func(c *containers.Container) {
		c.Spec.Security.Seccomp = "{}"
		c.Anonymous = []string{"/data"}
	})
	n := &node.Node{Root: t.TempDir(), Engine: e, Host: host.Real()}
	read := func() Proposal {
		t.Helper()
		p, err := Read(t.Context(), n, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := read(); len(p.Blocked) != 2 {
		t.Errorf("%v", p.Blocked)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(n.NodeFilePath()), 0o755), os.WriteFile(n.NodeFilePath(), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	p := read()
	if len(p.Blocked) != 1 || !strings.Contains(p.Blocked[0].Text, "volume without a name at /data") {
		t.Errorf("%v", p.Blocked)
	}
	if got := p.Unwritten(); len(got) != 1 || !strings.Contains(got[0].Text, "it has a seccomp profile") || got[0].Remedy != "" {
		t.Errorf("%v", got)
	}
}

// Anyone who copies a part of what is printed into the node file has to know what would be read as
// something else there.
func TestMisreadBesideAnOwnNodeFile(t *testing.T) {
	e := engine{name: "docker"}
	e.kolla(t, "nova_compute", plainConfig, func(c *containers.Container) { c.Spec.Env["GREETING"] = "x{{ y }}" })
	n := &node.Node{Root: t.TempDir(), Engine: e, Host: host.Real()}
	if err := errors.Join(os.MkdirAll(filepath.Dir(n.NodeFilePath()), 0o755), os.WriteFile(n.NodeFilePath(), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	p, err := Read(t.Context(), n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	told := func(f Finding) bool {
		return strings.Contains(f.Text, "GREETING, contains {{") && f.Remedy == "write it differently in the node file"
	}
	if len(p.Blocked) != 0 || !slices.ContainsFunc(p.Differs, told) || len(p.Unwritten()) != 0 || !strings.Contains(p.NodeFile, "# Not as it stands here:\n# - line ") {
		t.Errorf("%+v", p)
	}
}
