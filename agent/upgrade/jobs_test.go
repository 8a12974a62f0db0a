package upgrade

import (
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/target"
)

// A migration that nova-compute received after the step quiesce has begun when nova-compute
// has stopped. libvirt is not stopped then.
func TestJobsAfterNovaStopped(t *testing.T) {
	migration := "8d3c Incoming migration\n"
	for name, c := range map[string]struct {
		jobs  map[string]string
		force bool
		want  string // error; empty: libvirt stops
	}{
		"none":      {jobs: map[string]string{"nova-libvirt: jobs": ""}},
		"migration": {jobs: map[string]string{"nova-libvirt: jobs": migration}, want: "stop nova-libvirt: 1 operation: guest of libvirt (8d3c) has a job: Incoming migration; let it finish, and run the upgrade again"},
		"forced":    {jobs: map[string]string{"nova-libvirt: jobs": migration}, force: true},
		"no answer": {want: "stop nova-libvirt: ask for the jobs of its guests: exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newCutoverNode(t)
			n.node.Engine = answering{answers: c.jobs}
			tx := newTransaction(n.node, nil, generation.Generation{})
			tx.target, tx.options.Force = &target.Target{}, c.force
			var old []oldTask
			for _, service := range []generation.Service{
				{Name: "nova-libvirt", Guests: &nodefile.Guests{Jobs: []string{"jobs"}}}, {Name: "nova-compute"},
			} {
				service.StopSignal, service.StopGracePeriod = "SIGTERM", time.Hour
				first := n.start("/docker/"+service.Name, loop)
				n.list("/docker/"+service.Name, first)
				task := n.task(service, first)
				task.container.ID, task.sorter = service.Name, nil
				old = append(old, task)
			}
			err := tx.stopAll(t.Context(), old)
			if (err != nil) != (c.want != "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if libvirt, compute := old[0], old[1]; compute.exited.IsZero() || libvirt.signalled.IsZero() != (c.want != "") {
				t.Errorf("nova-compute exited at %v, libvirt was told to stop at %v", compute.exited, libvirt.signalled)
			}
		})
	}
}
