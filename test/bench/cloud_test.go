package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// BenchmarkCloud measures how long nova-compute takes no requests while it is replaced,
// and how long Nova can place no server on the node while libvirt is, in a cloud.
func BenchmarkCloud(b *testing.B) {
	nodetest.ShareRun(b)
	c := cloud.New(b)
	registry := machine.NewRegistry(b, machine.RegistryDir(nodetest.Built(b, "registry")))
	b.Run("docker", func(b *testing.B) {
		newMember(b, c, nodetest.OnDocker(machine.Dockerd(b)), registry).measure()
	})
	b.Run("containerd", func(b *testing.B) {
		newMember(b, c, nodetest.OnContainerd(machine.NewContainerd(b, machine.BoundedRuntime())), registry).measure()
	})
}

// Ways of replacing libvirt, with regard to nova-compute. It disables its service when
// libvirt goes away under it.
const (
	stoppedBefore = "gated, nova-compute stopped before"
	leftRunning   = "gated, nova-compute left running" // as kollet 1.0 did
	disabled      = "gated, service disabled by kollet"
)

// credentials let kollet disable the compute service while it replaces libvirt.
const credentials = "openstack: {username: nova, password: nova_password}\n"

// keepOne bounds the disk that a measurement uses.
const keepOne = "keep_generations: 1\n"

// member is a compute node of a cloud.
type member struct {
	*nodetest.Compute
	b       *testing.B
	cloud   *cloud.Cloud
	api     *cloud.Client
	takes   func() (bool, error) // whether nova-compute takes requests
	usable  func() (bool, error) // whether Nova could place a server on the node
	version string
}

func newMember(b *testing.B, c *cloud.Cloud, engine nodetest.Engine, registry *machine.Registry) *member {
	b.Helper()
	m := &member{Compute: nodetest.NewCompute(b, "linuxbridge", engine, registry), b: b, cloud: c, api: c.Client(b)}
	c.Connect(m.Compute)
	m.Settings = keepOne
	m.Vars["physical_interface_mappings"] = "physnet1:" + nodetest.Interface
	m.More = map[string]string{}
	began := time.Now()
	m.Configure()
	m.Must(0, "bootstrap")
	m.api.AwaitCompute("compute-1", began)

	password, err := os.ReadFile(c.Secret("rabbit"))
	check(b, err)
	m.takes = consumed(b, fmt.Sprintf("amqp://openstack:%s@%s:5672/", strings.TrimSpace(string(password)), c.Address), "compute.compute-1")
	m.usable = usable(m.api)
	info, err := m.Engine.Info(context.Background())
	check(b, err)
	m.version = engine.Name + " " + info.Version
	return m
}

// usable returns the scheduler's question to Placement: is there a host whose compute
// service is not disabled?
func usable(api *cloud.Client) func() (bool, error) {
	placement := *api.Placement
	placement.Microversion = "1.29"
	return func() (bool, error) {
		var found struct {
			Candidates []any `json:"allocation_requests"`
		}
		response, err := placement.Get(context.Background(), placement.ServiceURL("allocation_candidates")+"?resources=VCPU:1,MEMORY_MB:64&required=!COMPUTE_STATUS_DISABLED",
			&found, &gophercloud.RequestOpts{OkCodes: []int{200}})
		if err == nil {
			response.Body.Close()
		}
		return len(found.Candidates) > 0, err
	}
}

func (m *member) measure() {
	var order []string
	all := series{}
	add := func(what string, d time.Duration) {
		if len(all[what]) == 0 {
			order = append(order, what)
		}
		all[what] = append(all[what], ms(d))
	}
	before := load()
	for m.b.Loop() {
		for _, way := range []string{warmedUp, notLoaded, inSequence, restarted} {
			awaitQuiet(m.b)
			away, start := m.novaAway(way)
			add("Cloud/what=no requests taken/way="+way, away)
			add("Cloud/what=start to broker/way="+way, start)
		}
		for _, way := range []string{stoppedBefore, leftRunning, disabled, inSequence, restarted} {
			awaitQuiet(m.b)
			add("Cloud/what=no placement/way="+way, m.libvirtAway(way))
		}
	}
	m.b.ReportMetric(0, "ns/op")
	var t strings.Builder
	fmt.Fprintf(&t, "| measured | way | median ms | min ms | max ms |\n|---|---|---|---|---|\n")
	for _, what := range order {
		g := spreadOf(all[what])
		measured, way, _ := strings.Cut(strings.TrimPrefix(what, "Cloud/what="), "/way=")
		fmt.Fprintf(&t, "| %s | %s | %.0f | %.0f | %.0f |\n", measured, way, g.Median, g.Min, g.Max)
	}
	fmt.Fprintf(&t, "\n%s; load %.1f before, %.1f after; %d rounds.\n", m.version, before, load(), len(all[order[0]]))
	keep(m.b, "cloud-"+m.On.Name+".md", []byte(t.String()))
	keepSeries(m.b, "cloud-"+m.On.Name+".txt", here(m.version), order, all)
	m.b.Logf("\n%s", t.String())
}

// novaAway replaces nova-compute. It returns how long nobody took requests from its
// queue, the old one's graceful stop included, and how long the new one took from its
// start, or its open gate, to its first login at the broker.
func (m *member) novaAway(way string) (away, start time.Duration) {
	m.b.Helper()
	old := m.container("nova-compute").PID
	w, from := watchEvery(20*time.Millisecond, m.takes), time.Now()
	started := m.replace("nova-compute", way)
	away = w.end(m.b)
	login, ok := firstLogin(m.cloud.Log("rabbitmq", "2000"), from, old)
	if !ok {
		m.b.Fatalf("nova-compute (it was process %d) did not log in at the broker", old)
	}
	m.api.AwaitCompute("compute-1", started)
	return away, login.Sub(started)
}

// libvirtAway replaces libvirt. It returns how long Nova could place no server.
func (m *member) libvirtAway(way string) time.Duration {
	m.b.Helper()
	w := watchEvery(50*time.Millisecond, m.usable)
	m.replace("nova-libvirt", way)
	m.api.AwaitCompute("compute-1", time.Now())
	return w.end(m.b)
}

// replace puts another version of a service in its place, and returns when the new
// nova-compute started, or its gate was opened.
func (m *member) replace(service, way string) (started time.Time) {
	m.b.Helper()
	ctx := context.Background()
	switch way {
	case inSequence, restarted:
		old := m.container(service)
		id := old.ID
		check(m.b, m.Engine.Stop(ctx, id, time.Minute))
		if way == inSequence {
			check(m.b, m.Engine.Remove(ctx, id))
			var err error
			id, err = m.Engine.Create(ctx, old.Spec)
			check(m.b, err)
		}
		started = time.Now()
		check(m.b, m.Engine.Start(ctx, id))
		return started
	}
	if m.Images[service] == nodetest.NewVersion {
		m.Images[service] = nodetest.OldVersion
	} else {
		m.Images[service] = nodetest.NewVersion
	}
	m.More, m.Settings = map[string]string{}, keepOne
	switch way {
	case disabled:
		m.Settings += credentials
	case notLoaded:
		m.More["nova-compute"] = "    preload: {python: false, modules: []}\n    warmup: [nova-compute, --version]\n"
	case leftRunning:
		m.More["nova-compute"] = "    group: \"\"\n    replace_with_dependencies: false\n"
	}
	m.Upgrade()
	gate := filepath.Join(m.Path(node.StateDir), fmt.Sprintf("generations/%06d/nova-compute/gate/open", m.Status().Generation))
	if info, err := os.Stat(gate); err == nil {
		return info.ModTime()
	}
	return started // nova-compute was not replaced
}

func (m *member) container(service string) containers.Container {
	m.b.Helper()
	found, err := m.Engine.Inspect(context.Background(), service)
	check(m.b, err)
	return found
}

// firstLogin returns when nova-compute first logged in at the broker after a moment, by
// RabbitMQ's log. Old is the process id of the one that went.
func firstLogin(log string, from time.Time, old int) (time.Time, bool) {
	for line := range strings.Lines(log) {
		at, pid, text, ok := parseBusLine(line)
		if ok && !at.Before(from) && pid != fmt.Sprint(old) && strings.Contains(text, granted) {
			return at, true
		}
	}
	return time.Time{}, false
}
