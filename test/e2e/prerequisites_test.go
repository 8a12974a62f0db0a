package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// TestPrerequisites upgrades small services that require a message broker, with a real
// RabbitMQ that does not answer, and with services that are unhealthy before the
// upgrade.
func TestPrerequisites(t *testing.T) {
	rabbit := machine.NewRabbit(t, "r4bb1tPassw0rd")
	onDocker(t, func(t *testing.T, p *protocol) {
		pushTiny(t, p.registry, "test/tiny", "v1")
		for name, scenario := range map[string]func(*testing.T, *brokered){
			"a frozen broker refuses an upgrade":             refusedByBroker,
			"a stopped broker refuses a rollback":            refusedRollback,
			"an upgrade of others does not need the broker":  othersNeedNoBroker,
			"a first boot waits for the broker":              firstBootWaits,
			"a first boot without a broker goes ahead":       firstBootWithout,
			"an unhealthy service that stays is refused":     unhealthyStays,
			"an unhealthy service that is replaced may fail": unhealthyReplaced,
			"a service that restarts is not healthy":         restartingIsUnhealthy,
		} {
			t.Run(name, func(t *testing.T) {
				rabbit.Start()
				scenario(t, &brokered{testNode: newNodeOn(t, p.engine), protocol: p, rabbit: rabbit})
			})
		}
	})
}

// brokered is a node with two services, of which alpha requires the broker.
type brokered struct {
	*testNode
	protocol *protocol
	rabbit   *machine.Rabbit
}

// set writes the node file, with what the services say.
func (b *brokered) set(alpha, beta string) {
	b.Write("/etc/kollet/node.yaml", fmt.Sprintf(`profile: none
engine: %s
images: {registry: %s/test, tag: v1}
services:
  alpha:
    image: tiny
    command: [serve, "127.0.0.1:7001", /etc/alpha.conf]
    stop_grace_period: 2s
    config: [{content: %q, dest: /etc/alpha.conf, owner: root, perm: "0600"}]
    healthcheck: [{exec: [/bin/tiny, ask, "127.0.0.1:7001"], start_period: 1m, stable: 200ms, interval: 50ms, timeout: 5s}]
    requires: [{amqp: "amqp://%s", start_period: 5s, timeout: 4s}]
  beta:
    image: tiny
    command: [serve, "127.0.0.1:7002", /etc/beta.conf]
    config: [{content: %q, dest: /etc/beta.conf, owner: root, perm: "0600"}]
    healthcheck: [{exec: [/bin/tiny, ask, "127.0.0.1:7002"], start_period: 1m, stable: 200ms, interval: 50ms, timeout: 5s}]
`, b.protocol.engine.Name, b.protocol.registry.Addr, alpha, b.rabbit.Addr, beta))
}

// freeze freezes the broker until the end of the test, or until it is thawed.
func (b *brokered) freeze(t *testing.T) {
	b.rabbit.Freeze()
	t.Cleanup(b.rabbit.Thaw)
}

// refused requires that an upgrade is refused in its first step, with these words, and
// that no service was stopped.
func (b *brokered) refused(t *testing.T, command []string, words ...string) {
	t.Helper()
	before := b.Status()
	o := b.Must(1, command...)
	var history []agent.Entry
	b.Ask(&history, "history")
	if last := history[0]; last.Outcome != journal.Discarded || len(last.Steps) != 1 { // the first step is the check
		t.Errorf("refused after %+v", last)
	}
	contains(t, o.Stderr, append(words, "nothing was touched: ", "--force` continues regardless")...)
	after := b.Status()
	for i, was := range before.Services {
		nodetest.Same(t, was, after.Services[i])
	}
	if after.Generation != before.Generation {
		t.Fatalf("generation %d, now %d", before.Generation, after.Generation)
	}
}

const frozenText = "it accepts connections, but does not answer"

func refusedByBroker(t *testing.T, b *brokered) {
	b.set("one", "one")
	b.Must(0, "bootstrap")
	b.freeze(t)
	b.set("two", "one")
	b.refused(t, []string{"upgrade"}, "check requires: alpha: no success within 5s: probe amqp://127.0.0.1:5672: "+frozenText)
	if word := answer(t, "127.0.0.1:7001"); word != "one" {
		t.Fatalf("alpha answers %q", word)
	}
	contains(t, b.Kollet("plan").Stdout, "alpha") // which asks nothing
	contains(t, b.Kollet("doctor").Stdout, "alpha: no success within 5s: probe amqp://127.0.0.1:5672: "+frozenText, "services  ", "healthy")
	o := b.Must(0, "upgrade", "--force")
	contains(t, o.Stderr, "warning: continuing with --force: check requires: alpha: ")
	if word := answer(t, "127.0.0.1:7001"); word != "two" {
		t.Fatalf("alpha answers %q", word)
	}
	var history []agent.Entry
	b.Ask(&history, "history")
	if w := history[0].Warnings; len(w) != 2 || !strings.Contains(w[0], frozenText) { // checked twice
		t.Fatalf("warnings in the history: %q", w)
	}
	if refused := history[1]; refused.Outcome != journal.Discarded || len(refused.Steps) != 1 || !strings.Contains(refused.Why, frozenText) {
		t.Fatalf("history of the refused upgrade: %+v", refused)
	}
	before := len(history)
	if o := b.Must(0, "upgrade"); strings.Contains(o.All(), frozenText) { // nothing to do, so nothing is asked
		t.Errorf("an upgrade without changes asked the broker:\n%s", o.All())
	}
	if b.Ask(&history, "history"); len(history) != before {
		t.Errorf("an upgrade without changes: %+v", history[0])
	}
	b.rabbit.Thaw()
	b.set("three", "one")
	if o := b.Must(0, "upgrade"); strings.Contains(o.All(), "warning") {
		t.Fatalf("with a broker:\n%s", o.All())
	}
}

func refusedRollback(t *testing.T, b *brokered) {
	b.set("one", "one")
	b.Must(0, "bootstrap")
	b.set("two", "one")
	b.Must(0, "upgrade")
	b.rabbit.Stop()
	b.refused(t, []string{"rollback"}, "check requires: alpha: ", "connection refused", "`kollet rollback --force`")
	b.Must(0, "rollback", "--force")
	if word := answer(t, "127.0.0.1:7001"); word != "one" {
		t.Fatalf("alpha answers %q", word)
	}
}

func othersNeedNoBroker(t *testing.T, b *brokered) {
	b.set("one", "one")
	b.Must(0, "bootstrap")
	b.freeze(t)
	b.set("one", "two")
	if o := b.Must(0, "upgrade"); strings.Contains(o.All(), "warning") {
		t.Fatalf("alpha is not replaced:\n%s", o.All())
	}
}

func firstBootWaits(t *testing.T, b *brokered) {
	b.set("one", "one")
	b.freeze(t)
	o := b.when("waiting for what the services require", b.rabbit.Thaw, "bootstrap", "--wait", "5m")
	if o.Code != 0 {
		t.Fatalf("exit status %d\n%s", o.Code, o.All())
	}
	contains(t, o.All(), frozenText)
	if strings.Contains(o.All(), "warning") {
		t.Fatalf("it did not wait for the broker:\n%s", o.All())
	}
	b.Healthy(1)
}

func firstBootWithout(t *testing.T, b *brokered) {
	b.set("one", "one")
	b.freeze(t)
	o := b.Must(0, "bootstrap", "--wait", "1s")
	contains(t, o.All(), "warning: waited 1s for what the services require: ", frozenText)
	b.Healthy(1)
}

// stop stops a service's process, so that its probe fails, until it ends.
func (b *brokered) stop(t *testing.T, service string) {
	t.Helper()
	pid := b.Service(service).PID
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
}

func unhealthyStays(t *testing.T, b *brokered) {
	b.set("one", "one")
	b.Must(0, "bootstrap")
	b.stop(t, "alpha")
	b.set("one", "two")
	b.refused(t, []string{"upgrade"}, "check services: alpha is unhealthy, and would not be replaced: not healthy within 5s: ")
	contains(t, b.Kollet("doctor").Stdout, "alpha is unhealthy: ")
	before := b.Service("alpha")
	var r upgrade.Result
	b.Ask(&r, "upgrade", "--force")
	if r.Outcome != journal.Committed {
		t.Fatalf("with --force: %+v", r)
	}
	nodetest.Same(t, before, b.Service("alpha"))
	if word := answer(t, "127.0.0.1:7002"); word != "two" {
		t.Fatalf("beta answers %q", word)
	}
}

func unhealthyReplaced(t *testing.T, b *brokered) {
	b.set("one", "one")
	b.Must(0, "bootstrap")
	b.stop(t, "alpha")
	b.set("two", "one")
	o := b.Must(0, "upgrade")
	contains(t, o.Stderr, "alpha: warning: unhealthy before its replacement: not healthy within 5s: ")
	b.Healthy(2)
}

// restartingIsUnhealthy kills a service and requires that it is not called healthy,
// though its probe passes again as soon as the engine has restarted it.
func restartingIsUnhealthy(t *testing.T, b *brokered) {
	b.set("one", "one")
	b.Must(0, "bootstrap")
	first := b.Service("alpha")
	if first.Restarts != 0 || first.Health != "healthy" {
		t.Fatalf("before: %+v", first)
	}
	const kills = 3
	for n := range kills {
		check(t, syscall.Kill(b.Service("alpha").PID, syscall.SIGKILL))
		between := b.awaitService(t, "alpha", func(s agent.ServiceStatus) bool { return s.PID == 0 || s.Restarts > n })
		if between.Health != "restarting" {
			t.Fatalf("after kill %d: %+v", n+1, between)
		}
		if between.State == "restarting" && between.ExitCode != nil && *between.ExitCode != 128+int(syscall.SIGKILL) {
			t.Fatalf("exit status %d between two runs", *between.ExitCode)
		}
		b.awaitService(t, "alpha", func(s agent.ServiceStatus) bool { return s.State == "running" && s.Restarts == n+1 })
		if word := answer(t, "127.0.0.1:7001"); word != "one" {
			t.Fatalf("alpha answers %q", word)
		}
	}
	now := b.Service("alpha")
	if now.Health != "restarting" || now.Restarts != kills || now.PID == first.PID || now.ExitCode != nil {
		t.Fatalf("after %d kills: %+v", kills, now)
	}
	contains(t, b.Must(1, "status", "--exit-code").Stdout, "not healthy", "alpha: restarting (3 restarts, the last one ")
	if other := b.Service("beta"); other.Health != "healthy" || other.Restarts != 0 {
		t.Fatalf("beta: %+v", other)
	}
	b.set("one", "two")
	b.refused(t, []string{"upgrade"}, "check services: alpha is unhealthy, and would not be replaced: restarting (3 restarts, ")
	b.set("two", "two")
	contains(t, b.Must(0, "upgrade").Stderr, "alpha: warning: unhealthy before its replacement: restarting (3 restarts, ")
	b.Healthy(3) // generation 2 was refused
}

// awaitService waits until the status of a service is as required, and returns it.
func (b *brokered) awaitService(t *testing.T, name string, holds func(agent.ServiceStatus) bool) agent.ServiceStatus {
	t.Helper()
	var s agent.ServiceStatus
	b.Await("the status of "+name, func() bool {
		s = b.Service(name)
		return holds(s)
	})
	return s
}
