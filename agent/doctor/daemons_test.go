package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// engine is an engine that has these containers.
type engine struct {
	containers.Engine
	all    []containers.Container
	listed func()        // optional: happens while they are listed
	takes  time.Duration // a command
}

func (e engine) List(context.Context, map[string]string) ([]containers.Container, error) {
	if e.listed != nil {
		e.listed()
	}
	return e.all, nil
}

func (e engine) Exec(ctx context.Context, _ string, _ containers.Exec) (int, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(e.takes):
		return 0, nil
	}
}

// cgroups is a host where process 100, in a container, and this process have
// these paths in the hierarchy of pids.
func cgroups(container, own string) files {
	return files{
		"proc/self/cgroup":    "0::/\n",
		"proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n",
		"proc/100/cgroup":     "2:pids:" + container + "\n",
		fmt.Sprintf("proc/%d/task/%[1]d/cgroup", os.Getpid()): "2:pids:" + own + "\n",
		fmt.Sprintf("proc/%d/task/%[1]d/stat", os.Getpid()):   "1 (libvirtd) S 1 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 99",
	}
}

// listensAsLibvirt has this process listen at a socket of libvirt, until the test ends.
func listensAsLibvirt(t *testing.T, run, socket string) net.Listener {
	t.Helper()
	path := filepath.Join(run, "libvirt", socket)
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// The process that listens at libvirt's socket is this test.
func TestHostLibvirt(t *testing.T) {
	running := []containers.Container{{ID: "abc", PID: 100, State: containers.StateRunning}}
	for _, c := range []struct {
		name   string
		socket string // below /run; empty: none
		files  files
		all    []containers.Container
		want   Verdict
	}{
		{"no libvirt", "", nil, nil, Fine},
		{"the node's libvirt", "libvirt-sock", cgroups("/docker/abc", "/docker/abc"), running, Fine},
		{"below the container's cgroup", "libvirt-sock", cgroups("/docker/abc", "/docker/abc/x"), running, Fine},
		{"the host's libvirt", "libvirt-sock", cgroups("/docker/abc", "/system.slice/libvirtd.service"), running, Bad},
		{"the host's modular libvirt", "virtqemud-sock", cgroups("/docker/abc", "/system.slice/virtqemud.service"), running, Bad},
		{"no containers", "libvirt-sock", cgroups("/docker/abc", "/docker/abc"), nil, Bad},
		{"a stopped container", "libvirt-sock", cgroups("/docker/abc", "/docker/abc"), []containers.Container{{PID: 0, State: containers.StateExited}}, Bad},
		{"a container whose number another process has", "libvirt-sock", cgroups("/docker/abc", "/docker/abc"), []containers.Container{{ID: "abd", PID: 100, State: containers.StateRunning}}, Bad},
		{"a container that just ended", "libvirt-sock", cgroups("/docker/abc", "/docker/abc"), []containers.Container{{ID: "abd", PID: 101, State: containers.StateRunning}, running[0]}, Fine},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := machine(t, c.files)
			h.Run = t.TempDir() // a socket's path is short
			if c.socket != "" {
				listensAsLibvirt(t, h.Run, c.socket)
			}
			got := hostDaemons[0].check(t.Context(), &node.Node{Host: h, Engine: engine{all: c.all}})
			if got.Level != c.want {
				t.Errorf("%+v", got)
			}
			if want := fmt.Sprintf("process %d, which is in none of this node's containers, listens at %s", os.Getpid(), filepath.Join(h.Run, "libvirt", c.socket)); c.want == Bad && (got.Text != want || !strings.Contains(got.Remedy, "libvirtd.socket")) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// notOwn is an engine on which no container is this node's.
type notOwn struct{ engine }

func (e notOwn) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	if labels != nil {
		return nil, nil
	}
	return e.all, nil
}

// The libvirt of a node that kolla-ansible runs is none of the host's.
func TestKollaLibvirt(t *testing.T) {
	h := machine(t, cgroups("/docker/abc", "/docker/abc"))
	h.Run = t.TempDir()
	l := listensAsLibvirt(t, h.Run, "libvirt-sock")
	path := l.Addr().String()
	for text, env := range map[string]map[string]string{
		"kolla-ansible's container nova_libvirt listens at " + path:                                             {"KOLLA_SERVICE_NAME": "nova-libvirt"},
		fmt.Sprintf("process %d, which is in none of this node's containers, listens at %s", os.Getpid(), path): nil,
	} {
		c := containers.Container{ID: "abc", PID: 100, State: containers.StateRunning, Spec: containers.Spec{Name: "nova_libvirt", Env: env}}
		got := hostDaemons[0].check(t.Context(), &node.Node{Host: h, Engine: notOwn{engine{all: []containers.Container{c}}}})
		if got.Level != Bad || got.Text != text || strings.Contains(got.Remedy, "`kollet adopt`") != (env != nil) {
			t.Errorf("%+v, want %s", got, text)
		}
	}
}

// A libvirt that exits while its container is looked for is no stranger: the node's crashes
// repeatedly, or is just being replaced.
func TestLibvirtExitsMeanwhile(t *testing.T) {
	h := machine(t, cgroups("/docker/abc", "/docker/abc"))
	h.Run = t.TempDir()
	l := listensAsLibvirt(t, h.Run, "libvirt-sock")
	exits := func() { _ = l.Close() }
	got := hostDaemons[0].check(t.Context(), &node.Node{Host: h, Engine: engine{listed: exits}})
	if got.Level != Fine {
		t.Errorf("%+v", got)
	}
}

// A daemon of the host matters where a service would have its socket. This test listens in its
// place.
func TestHostDaemons(t *testing.T) {
	verdicts := func(all []containers.Container, services ...string) string {
		h := machine(t, cgroups("/docker/abc", "/docker/abc"))
		h.Run = t.TempDir()
		var of []generation.Service
		for _, name := range services {
			s := generation.Service{Name: name}
			if name == "nova-libvirt" {
				s.Guests = &nodefile.Guests{}
			}
			of = append(of, s)
		}
		var said []string
		for _, c := range checkHostDaemons(t.Context(), &node.Node{Host: h, Engine: engine{all: all}}, of) {
			said = append(said, c.Name+": "+string(c.Level))
		}
		return strings.Join(said, ", ")
	}
	l, err := net.Listen("unix", "@ISCSIADM_ABSTRACT_NAMESPACE")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		name     string
		all      []containers.Container
		services []string
		want     string
	}{
		{"no service in its place", nil, []string{"nova-compute"}, ""},
		{"no node file", nil, nil, "host libvirt: ok"},
		{"the node has libvirt", nil, []string{"nova-libvirt"}, "host libvirt: ok"},
		{"the host's", nil, []string{"nova-libvirt", "iscsid"}, "host libvirt: ok, host iscsid: problem"},
		{"the node's", []containers.Container{{ID: "abc", PID: 100, State: containers.StateRunning}}, []string{"iscsid"}, "host iscsid: ok"},
		{"another one's", nil, []string{"multipathd"}, "host multipathd: ok"},
	} {
		if got := verdicts(c.all, c.services...); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
