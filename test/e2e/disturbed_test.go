package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/nodetest"
)

func interrupted(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	alpha, beta := n.Service("alpha"), n.Service("beta")
	p.staysInVerify(n)
	cmd := n.Command("upgrade")
	var out strings.Builder
	cmd.Stderr = &out
	check(t, cmd.Start())
	awaitJournal(t, n, 2, "verify")
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Fatalf("exit status %d\n%s", code, out.String())
	}
	contains(t, out.String(), "interrupted", "back on generation 1")
	rolledBack(t, p, n, alpha, beta)
}

// staysInVerify writes a node file with which an upgrade does not leave verify by itself.
func (p *protocol) staysInVerify(n *testNode) {
	n.T.Helper()
	p.replaceCommand(n, "two", `command: [sulk]`)
	n.Write(node.DefaultNodeFile, strings.Replace(n.read(node.DefaultNodeFile), alphaStarts, "start_period: 10m", 1))
}

// awaitJournal waits until a step of a transaction begins.
func awaitJournal(t *testing.T, n *testNode, to int, step string) {
	t.Helper()
	n.Await("step "+step+" begins", func() bool {
		records, _ := journal.Read(n.Path(node.StateDir+"/journal"), to)
		return slices.ContainsFunc(records, func(r journal.Record) bool { return r.Step.String() == step })
	})
}

// A service that was told to stop exits later than the recovery begins. It has to be started
// again nevertheless.
func killedInStop(t *testing.T, p *protocol) {
	n := p.node(t)
	p.replaceCommand(n, "one", `command: [serve, "127.0.0.1:7001", /etc/alpha.conf, 2s]`)
	n.Must(0, "bootstrap")
	alpha := n.Service("alpha")
	p.configure(n, "v1", "two", "")
	cmd := n.Command("upgrade")
	check(t, cmd.Start())
	n.Await("alpha is told to stop", func() bool {
		return strings.Contains(n.Must(0, "logs", "alpha").Stdout, "takes its time to stop")
	})
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	notManually(t, n.Must(1, "verify").Stdout, "an upgrade was interrupted; run `kollet recover`", "no drift")
	notManually(t, n.Must(0, "plan").Stdout, "an upgrade was interrupted; run `kollet recover`", "~ alpha: replace")
	n.Must(0, "recover")
	n.Healthy(1)
	if now := n.Service("alpha"); now.Container != alpha.Container || now.PID == alpha.PID {
		t.Errorf("alpha is still about to exit: %+v, before %+v", now, alpha)
	}
	if answer(t, "127.0.0.1:7001") != "one" {
		t.Error("alpha does not answer as before")
	}
}

// The old container of a service may run beside the new one, and answer its probes, if
// something starts it again. Such an upgrade is not committed.
func startedAgain(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	alpha := n.Service("alpha")
	p.configure(n, "v2", "two", "")
	file := strings.ReplaceAll(n.read(node.DefaultNodeFile), "127.0.0.1:7001", "127.0.0.1:7003")
	n.Write(node.DefaultNodeFile, strings.Replace(file, "stable: 200ms", "stable: 3s", 1))
	for try, stopped := range []bool{false, true} {
		cmd := n.Command("upgrade")
		var out strings.Builder
		cmd.Stderr = &out
		check(t, cmd.Start())
		awaitJournal(t, n, 2+try, "verify")
		check(t, n.Engine.Start(context.Background(), alpha.Container))
		if stopped {
			check(t, n.Engine.Stop(context.Background(), alpha.Container, 10*time.Second))
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 1 {
			t.Fatalf("stopped again: %v: exit status %d\n%s", stopped, code, out.String())
		}
		contains(t, out.String(), "alpha: its old container was started after its cutover, not by kollet", "back on generation 1")
		n.Healthy(1)
		if now := n.Service("alpha"); now.Container != alpha.Container || answer(t, "127.0.0.1:7001") != "one" {
			t.Errorf("alpha: %+v, before %+v", now, alpha)
		}
	}
	n.Must(0, "gc")
	p.onlyTheServices(t, n)
	n.Must(0, "upgrade")
	n.Healthy(4)
}

// notManually requires these words, and that nothing is called a manual change.
func notManually(t *testing.T, text string, words ...string) {
	t.Helper()
	contains(t, text, words...)
	if strings.Contains(text, "manually") || strings.Contains(text, "repair") {
		t.Errorf("kollet's own doing is called a manual change:\n%s", text)
	}
}

func locked(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	p.staysInVerify(n)
	cmd := n.Command("upgrade")
	check(t, cmd.Start())
	awaitJournal(t, n, 2, "verify")
	contains(t, n.Must(5, "upgrade").Stderr, "another kollet process", "upgrade")
	contains(t, n.Must(5, "recover").Stderr, "another kollet process")
	n.Must(0, "status") // reading is allowed, and finds nothing that was changed manually
	notManually(t, n.Must(0, "verify").Stdout, "kollet upgrade, process "+strconv.Itoa(cmd.Process.Pid)+", is changing the node", "not compared, as the upgrade replaces them: alpha", "no drift")
	notManually(t, n.Must(0, "plan").Stdout, "is changing the node", "~ alpha: replace")
	contains(t, n.Must(0, "history").Stdout, "not ended")
	check(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	n.Healthy(1)
}

func drift(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	beta := n.Service("beta")

	// A copied config file.
	pid := n.Service("alpha").PID
	check(t, os.WriteFile(fmt.Sprintf("/proc/%d/root/etc/alpha.conf", pid), []byte("changed manually\n"), 0o600))
	contains(t, n.Must(1, "verify").Stdout, "alpha", "/etc/alpha.conf", "changed manually")
	plan := n.Must(3, "plan", "--exit-code")
	contains(t, plan.Stdout, "alpha", "changed manually")
	contains(t, n.Must(0, "upgrade").All(), "changed manually")
	n.Must(0, "verify")

	// A mounted config file.
	mounted, err := filepath.Glob(n.Path(node.StateDir + "/current/alpha/config/*alpha.conf"))
	check(t, err)
	check(t, os.Chmod(mounted[0], 0o600))
	check(t, os.WriteFile(mounted[0], []byte("changed manually\n"), 0o600))
	contains(t, n.Must(1, "verify").Stdout, "alpha", filepath.Base(mounted[0]), "changed manually")
	n.Must(0, "upgrade")
	n.Must(0, "verify")

	// The container's settings.
	alpha := n.Service("alpha")
	check(t, n.Engine.Update(context.Background(), alpha.Container, "alpha", containers.RestartNo))
	contains(t, n.Must(1, "verify").Stdout, "alpha", "restart")
	n.Must(0, "upgrade")
	n.Must(0, "verify")

	// The container itself.
	ctx := context.Background()
	alpha = n.Service("alpha")
	check(t, n.Engine.Stop(ctx, alpha.Container, 0))
	contains(t, n.Must(1, "verify").Stdout, "alpha", "is not running")
	check(t, n.Engine.Remove(ctx, alpha.Container))
	contains(t, n.Must(1, "verify").Stdout, "alpha", "was removed manually")
	id, err := n.Engine.Create(ctx, containers.Spec{Name: "alpha", Image: alpha.ImageID, NetworkMode: "host", Command: []string{"serve", "127.0.0.1:7001"}})
	check(t, err)
	check(t, n.Engine.Start(ctx, id))
	contains(t, n.Must(1, "verify").Stdout, "alpha", "was not created by kollet")
	n.Must(0, "upgrade")
	n.Must(0, "verify")
	p.onlyTheServices(t, n)
	if _, err := n.Engine.Inspect(ctx, id); err == nil {
		t.Fatal("the container that kollet did not create is still there")
	}
	nodetest.Same(t, beta, n.Service("beta"))
}

func collection(t *testing.T, p *protocol) {
	n := p.node(t)
	pushTiny(t, p.registry, "test/tiny", "v4")
	p.configure(n, "v4", "one", "")
	n.Must(0, "bootstrap")
	image := n.Service("alpha").ImageID
	for i := range 5 {
		p.configure(n, "v1", fmt.Sprint("word", i), "")
		n.Must(0, "upgrade")
	}
	// beta has not changed since generation 1, so that directory is kept.
	kept, err := filepath.Glob(n.Path(node.StateDir + "/generations/*"))
	check(t, err)
	if len(kept) != 5 { // the current one, 3 before it, and the one that beta uses
		t.Fatalf("kept: %v", kept)
	}
	p.configure(n, "v1", "last", strings.Replace(gamma, "gamma", "delta", 1))
	data, err := os.ReadFile(n.Path("/etc/kollet/node.yaml"))
	check(t, err)
	n.Write("/etc/kollet/node.yaml", strings.Replace(string(data), "content: \"beta\"", "content: \"beta2\"", 1))
	n.Must(0, "upgrade")
	n.Must(0, "gc")
	n.Must(0, "verify")
	if _, err := n.Engine.Image(context.Background(), image); err == nil {
		t.Fatal("the image of generation 1 is still there")
	}
	if _, err := os.Stat(n.Path(node.StateDir + "/generations/000001")); err == nil {
		t.Fatal("generation 1 is still there")
	}
}

// collectionOfGivenUp has upgrades fail that pulled an image: none of their generations is left
// to name it. Images that were there before are not kollet's to remove.
func collectionOfGivenUp(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	image := func(tag string) (string, error) {
		found, err := n.Engine.Image(t.Context(), p.registry.Addr+"/test/tiny:"+tag)
		return found.ID, err
	}
	rollBack := func(tag string) {
		p.configure(n, tag, "two", "")
		n.Write(node.DefaultNodeFile, strings.Replace(n.read(node.DefaultNodeFile), "command: [serve,", "command: [fail,", 1))
		contains(t, n.Must(1, "upgrade").Stderr, "back on generation 1")
	}
	collect := func() []string {
		var gone upgrade.Garbage
		n.Ask(&gone, "gc")
		n.Healthy(1)
		return gone.Images
	}
	pushTiny(t, p.registry, "test/tiny", "v5")
	pushTiny(t, p.registry, "test/tiny", "v6")
	_, err := n.Engine.Pull(t.Context(), p.registry.Addr+"/test/tiny:v6", nil)
	check(t, err)
	for _, tag := range []string{"v5", "v6"} {
		rollBack(tag)
		id, err := image(tag)
		check(t, err)
		if got, pulled := slices.Contains(collect(), id), tag == "v5"; got != pulled {
			t.Errorf("%s: removed: %t, and kollet pulled it: %t", tag, got, pulled)
		}
	}
	if _, err := image("v5"); !errors.Is(err, containers.ErrNotFound) {
		t.Errorf("v5: %v", err)
	}
	_, err = image("v6")
	check(t, err)

	// One of two images arrived.
	p.configure(n, "v5", "one", strings.Replace(gamma, "image: tiny", "image: tiny:v9", 1))
	contains(t, n.Must(1, "upgrade").Stderr, "pull gamma")
	if id, err := image("v5"); err == nil && !slices.Contains(collect(), id) {
		t.Error("what a failed pull step pulled stays")
	}

	// The next generation that is committed uses it.
	rollBack("v5")
	p.configure(n, "v5", "two", "")
	n.Must(0, "upgrade")
	n.Must(0, "gc")
	n.Healthy(6)
	_, err = image("v5")
	check(t, err)
}

func movedTag(t *testing.T, p *protocol) {
	n := p.node(t)
	pushTiny(t, p.registry, "test/moving", "v1")
	move := strings.Replace(gamma, "image: tiny", "image: moving", 1)
	p.configure(n, "v1", "one", move)
	n.Must(0, "bootstrap")
	before := n.Service("gamma")
	var r upgrade.Result
	n.Ask(&r, "upgrade", "--pull", "always")
	if r.Outcome != journal.Unchanged {
		t.Fatalf("no tag moved, but: %+v", r)
	}
	pushTiny(t, p.registry, "test/moving", "v1", func(c *v1.Config) { c.Env = append(c.Env, "NEW=yes") })
	n.Ask(&r, "upgrade")
	if r.Outcome != journal.Unchanged {
		t.Fatalf("without --pull always, the registry must not be asked, but: %+v", r)
	}
	nodetest.Same(t, before, n.Service("gamma"))
	n.Must(0, "upgrade", "--pull", "always")
	if n.Service("gamma").ImageID == before.ImageID {
		t.Fatal("the new image does not run")
	}
	n.Must(0, "verify")
}

func engineRestart(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	p.engine.Kill()
	defer p.engine.Start()
	contains(t, n.Must(1, "upgrade").Stderr, p.engine.Socket)
	p.engine.Start()
	n.Await("the services are healthy", func() bool { return n.Status().Healthy })
	n.Healthy(1)
	n.Must(0, "verify")
}
