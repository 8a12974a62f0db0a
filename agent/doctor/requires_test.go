package doctor

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/nodefile"
)

// soon makes a probe fail soon.
func soon(p nodefile.Probe) nodefile.Probe {
	p.Interval, p.StartPeriod, p.Timeout = 10*time.Millisecond, 2*time.Second, time.Second
	return p
}

// A broker that is stopped still listens. Services that require the same are named
// together, and are asked once.
func TestRequires(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	broker := soon(nodefile.Probe{AMQP: "amqp://" + frozen.Addr().String()})
	reached := soon(nodefile.Probe{TCP: frozen.Addr().String()})
	socket := soon(nodefile.Probe{Unix: "/run/broker"})
	services := []generation.Service{
		{Name: "libvirt"},
		{Name: "compute", Requires: []nodefile.Probe{broker, reached, socket}},
		{Name: "agent", Requires: []nodefile.Probe{broker, socket}},
	}
	var got []string
	for _, c := range Requires(t.Context(), services, func(service string) (health.Target, bool) { return health.Target{}, service == "agent" }) {
		got = append(got, fmt.Sprintf("%s %s: %s; %s", c.Level, c.Name, c.Text, c.Remedy))
	}
	const remedy = "; start or repair what the service needs, or correct the node file"
	want := []string{
		"problem requires: compute, agent: no success within 2s: probe " + broker.AMQP + ": it accepts connections, but does not answer" + remedy,
		"ok requires: compute: " + reached.TCP + " answers; ",
		"problem requires: agent: no success within 2s: probe unix /run/broker: ",
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
