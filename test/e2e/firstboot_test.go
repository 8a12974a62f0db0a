package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/kollet/kollet/agent/firstboot"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/nodetest"
)

// TestFirstBoot bootstraps nodes through late or missing registries and engines, full
// disks, kills and power losses, on each engine.
func TestFirstBoot(t *testing.T) {
	onDocker(t, func(t *testing.T, p *protocol) {
		for _, tag := range []string{"v1", "v2"} {
			pushTiny(t, p.registry, "test/tiny", tag)
		}
		for _, scenario := range []struct {
			name string
			run  func(*testing.T, *protocol)
		}{
			{"a node without a registry loads its images from an archive", airGapped},
			{"unusable archives leave the node untouched", badArchives},
			{"a full or nearly full disk is reported", fullDisk},
			{"bootstrap waits for an engine that starts late", lateEngine},
			{"an engine that never starts is reported", noEngine},
			{"bootstrap waits for a registry that starts late", lateRegistry},
			{"a failed bootstrap is reported to cloud-init", reportedToCloudInit},
			{"a killed bootstrap is resumed at the next boot", killedBootstrap},
			{"a bootstrap that a shutdown interrupts has not failed", shutDownBootstrap},
			{"an interrupted bootstrap of a node with a generation creates no other generation", killedAgain},
			{"after a power loss the engine starts the committed services and recover does the rest", powerLoss},
		} {
			t.Run(scenario.name, func(t *testing.T) { scenario.run(t, p) })
		}
	})
}

// save writes images of the registry into an archive, as docker save does.
func (p *protocol) save(t *testing.T, w io.Writer, tags ...string) {
	t.Helper()
	images := map[name.Reference]v1.Image{}
	for _, tag := range tags {
		ref, err := name.NewTag(p.registry.Addr+"/test/tiny:"+tag, name.Insecure)
		check(t, err)
		image, err := remote.Image(ref)
		check(t, err)
		images[ref] = image
	}
	check(t, tarball.MultiRefWrite(images, w))
}

// archived writes a compressed image archive below the node's root.
func (p *protocol) archived(n *testNode, path string, tags ...string) {
	n.T.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	p.save(n.T.(*testing.T), z, tags...)
	check(n.T, z.Close())
	n.Write(path, out.String())
}

// forget removes the tiny images from the engine.
func (n *testNode) forget(p *protocol) {
	n.T.Helper()
	for _, tag := range []string{"v1", "v2"} {
		if image, err := n.Engine.Image(n.T.Context(), p.registry.Addr+"/test/tiny:"+tag); err == nil {
			check(n.T, n.Engine.RemoveImage(n.T.Context(), image.ID))
		}
	}
}

// fresh returns a node whose engine has no images, and which seems to run systemd.
func (p *protocol) fresh(t *testing.T) *testNode {
	n := p.node(t)
	n.forget(p)
	check(t, os.MkdirAll(n.Path("/run/systemd/system"), 0o755))
	return n
}

func (n *testNode) finished() firstboot.Finished {
	n.T.Helper()
	data, err := os.ReadFile(n.Path(firstboot.FinishedPath))
	check(n.T, err)
	var f firstboot.Finished
	check(n.T, json.Unmarshal(data, &f))
	return f
}

func (n *testNode) log() string {
	n.T.Helper()
	data, err := os.ReadFile(n.Path(firstboot.LogPath))
	check(n.T, err)
	for line := range strings.Lines(string(data)) {
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ .*\n$`).MatchString(line) {
			n.T.Errorf("a line without a time: %q", line)
		}
	}
	return string(data)
}

// untouched requires that a failed bootstrap left nothing on the node except its record.
func (n *testNode) untouched(o outcome, words ...string) {
	n.T.Helper()
	contains(n.T, o.Stderr, words...)
	f := n.finished()
	if f.OK || f.Generation != 0 || f.Error == "" || f.Begun.IsZero() || f.Time.Before(f.Begun) {
		n.T.Errorf("finished: %+v", f)
	}
	contains(n.T, n.log(), append(words, "bootstrap finished: failed, exit status 1")...)
	if n.exists(firstboot.BegunPath) {
		n.T.Error("the next boot would resume the bootstrap")
	}
	all, err := n.Engine.List(n.T.Context(), map[string]string{node.LabelNode: n.Path(node.StateDir)})
	check(n.T, err)
	left, _ := filepath.Glob(n.Path(node.StateDir) + "/generations/*")
	if len(all) > 0 || len(left) > 0 {
		n.T.Errorf("left: %+v, %q", all, left)
	}
}

func (n *testNode) exists(path string) bool {
	_, err := os.Lstat(n.Path(path))
	return err == nil
}

func airGapped(t *testing.T, p *protocol) {
	n := p.fresh(t)
	p.archived(n, "/media/images/tiny.tar.gz", "v1")
	p.registry.Stop()
	defer p.registry.Start()
	o := n.Must(0, "bootstrap", "--archive", "/media/images/*.tar.gz", "--wait", "2s")
	contains(t, o.Stdout, "starting bootstrap of", "with kollet", "installed kollet-recover.service", "loading images from "+n.Path("/media/images/tiny.tar.gz"),
		"check: done in", "bootstrap finished: committed; the node is on generation 1")
	contains(t, n.log(), "starting bootstrap of", "with kollet", "loaded images from", "bootstrap finished: committed; the node is on generation 1")
	if strings.Contains(n.log(), "s3cr3t-t0ken") {
		t.Error("the log has a secret")
	}
	f := n.finished()
	if !f.OK || f.Outcome != "committed" || f.Generation != 1 || f.Error != "" || !strings.HasPrefix(f.Engine, p.engine.Name+" ") || f.Images["alpha"] == "" {
		t.Errorf("finished: %+v", f)
	}
	n.Healthy(1)
	n.Must(0, "verify")
	contains(t, n.Must(0, "plan").Stdout, "nothing to do")

	// A second bootstrap and a boot do nothing, and do not need the archive.
	check(t, os.RemoveAll(n.Path("/media")))
	before := n.Service("alpha")
	contains(t, n.Must(0, "bootstrap", "--archive", "/media/images/*.tar.gz", "--wait", "0s").Stdout, "bootstrap finished: nothing to do")
	contains(t, n.boot(0).Stdout, "nothing to recover", "nothing to resume")
	nodetest.Same(t, before, n.Service("alpha"))

	// An upgrade loads its image from an archive that the node file names, and skips
	// archives whose images the engine already has.
	p.registry.Start()
	p.archived(n, "/media/images/1-old.tar.gz", "v1")
	p.archived(n, "/media/images/2-new.tar.gz", "v2")
	p.registry.Stop()
	n.Write("/etc/kollet/node.yaml", strings.Replace(n.read("/etc/kollet/node.yaml"), "tag: v1}", `tag: v2, pull_policy: never, archives: ["/media/images/*"]}`, 1))
	o = n.Must(0, "upgrade")
	contains(t, o.Stderr, "loading images from "+n.Path("/media/images/2-new.tar.gz"))
	if strings.Contains(o.Stderr, "1-old") {
		t.Errorf("loaded images that the engine has:\n%s", o.Stderr)
	}
	n.Healthy(2)
	n.Must(0, "verify")
	if o := n.Must(0, "bootstrap"); strings.Contains(o.Stdout, "loading") {
		t.Errorf("loaded again:\n%s", o.Stdout)
	}
	n.Must(0, "rollback")
	n.Healthy(3)
	n.Must(0, "verify")
}

func (n *testNode) read(path string) string {
	n.T.Helper()
	data, err := os.ReadFile(n.Path(path))
	check(n.T, err)
	return string(data)
}

func badArchives(t *testing.T, p *protocol) {
	n := p.fresh(t)
	p.archived(n, "/good.tar.gz", "v1")
	p.archived(n, "/other.tar.gz", "v2")
	n.Write("/short.tar.gz", n.read("/good.tar.gz")[:10_000])
	n.Write("/text.tar", "no archive\n")
	p.registry.Stop()
	defer p.registry.Start()
	bootstrap := func(args ...string) outcome {
		t.Helper()
		return n.Must(1, append([]string{"bootstrap", "--wait", "0s"}, args...)...)
	}
	n.untouched(bootstrap("--archive", "/none.tar"), "nothing was touched", "/none.tar: file does not exist; put the archive there, or mount the drive")
	n.untouched(bootstrap("--archive", "/short.tar.gz"), "nothing was touched", "/short.tar.gz: the archive is damaged or truncated: unexpected EOF; copy it again")
	n.untouched(bootstrap("--archive", "/text.tar"), "nothing was touched", "/text.tar: the archive is damaged or truncated")
	n.untouched(bootstrap("--archive", "/other.tar.gz"), "nothing was touched", "cannot be reached", "no image archive has it: ", "/other.tar.gz has "+p.registry.Addr+"/test/tiny:v2")
	n.untouched(bootstrap("--archive", "/other.tar.gz", "--pull", "never"), "tiny:v1 is not on this machine, and images.pull_policy is never; no image archive has it", "/other.tar.gz has")
	o := n.Must(2, "bootstrap", "--archive", "relative.tar")
	contains(t, o.Stderr, "expected an absolute path")
	// bootstrap waits for the drive that holds the archive.
	begun := time.Now()
	o = n.Must(1, "bootstrap", "--wait", "1s", "--pull", "never", "--archive", "/late/*.tar.gz")
	contains(t, o.Stdout, "waiting for image archive /late/*.tar.gz, 1s more at most")
	contains(t, o.Stderr, "waited 1s for image archive /late/*.tar.gz")
	if took := time.Since(begun); took < time.Second {
		t.Errorf("waited only %v", took)
	}
	time.AfterFunc(time.Second, func() {
		_ = os.Mkdir(n.Path("/late"), 0o755)
		_ = os.Rename(n.Path("/good.tar.gz"), n.Path("/late/good.tar.gz"))
	})
	n.Must(0, "bootstrap", "--wait", "5m", "--pull", "never", "--archive", "/text.tar", "--archive", "/late/*.tar.gz")
	n.Healthy(n.finished().Generation)
}

func fullDisk(t *testing.T, p *protocol) {
	n := p.fresh(t)
	state := n.Path(node.StateDir)
	check(t, os.MkdirAll(state, 0o700))
	check(t, syscall.Mount("tmpfs", state, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { _ = syscall.Unmount(state, syscall.MNT_DETACH) })
	o := n.Must(1, "bootstrap", "--wait", "0s")
	n.untouched(o, "nothing was touched: check disk "+state+": only ", "free 512MiB")
	if n.imageThere(p) {
		t.Error("the image was pulled despite the full disk")
	}
	// With no free byte, even the record of the failure cannot be written.
	check(t, os.Remove(n.Path(firstboot.FinishedPath)))
	err := os.WriteFile(state+"/filler", make([]byte, 2<<20), 0o600)
	if err == nil {
		t.Fatal("the disk is not full")
	}
	o = n.Must(1, "bootstrap", "--wait", "0s")
	contains(t, o.Stderr, "nothing was touched: write "+state+"/provision-begun: ", "no space left on device; free disk space, and run `kollet bootstrap`")
	contains(t, n.log(), "no space left on device")
}

func (n *testNode) imageThere(p *protocol) bool {
	_, err := n.Engine.Image(n.T.Context(), p.registry.Addr+"/test/tiny:v1")
	return err == nil
}

// whenWaiting bootstraps the node, does something once bootstrap says that it waits, and requires that
// it would have waited for the five minutes that it was told. The first try is a part of them, in which
// Podman tries again by itself.
func (n *testNode) whenWaiting(what string, do func()) outcome {
	n.T.Helper()
	const limit, firstTry = 5 * time.Minute, time.Minute
	o := n.when("waiting for "+what+", ", do, "bootstrap", "--wait", limit.String())
	_, rest, _ := strings.Cut(o.Stdout, "waiting for "+what+", ")
	left, _, told := strings.Cut(rest, " more at most: ")
	if d, err := time.ParseDuration(left); !told || err != nil || d > limit || d < limit-firstTry {
		n.T.Errorf("it waits for %q at most, %v\n%s", left, err, o.All())
	}
	return o
}

func lateEngine(t *testing.T, p *protocol) {
	n := p.fresh(t)
	p.engine.Kill()
	o := n.whenWaiting("the container engine", p.engine.Start)
	if o.Code != 0 {
		t.Fatalf("exit status %d\n%s", o.Code, o.All())
	}
	contains(t, o.Stdout, p.engine.Socket[strings.Index(p.engine.Socket, "/run"):])
	n.Healthy(1)
}

func noEngine(t *testing.T, p *protocol) {
	n := p.fresh(t)
	p.engine.Kill()
	begun := time.Now()
	o := n.Kollet("bootstrap", "--wait", "2s")
	took := time.Since(begun)
	// A boot needs no engine if there is nothing to recover.
	n.boot(0)
	p.engine.Start()
	if o.Code != 1 || took < 2*time.Second || took > 20*time.Second {
		t.Fatalf("exit status %d after %v\n%s", o.Code, took, o.All())
	}
	n.untouched(o, "waited 2s for the container engine: ", "start it")
	if f := n.finished(); f.Outcome != firstboot.Failed {
		t.Errorf("finished: %+v", f)
	}
}

func lateRegistry(t *testing.T, p *protocol) {
	n := p.fresh(t)
	p.registry.Stop()
	o := n.whenWaiting("the registry of "+p.registry.Addr+"/test/tiny:v1", p.registry.Start)
	if o.Code != 0 {
		t.Fatalf("exit status %d\n%s", o.Code, o.All())
	}
	contains(t, o.Stdout, "cannot be reached")
	n.Healthy(1)

	// bootstrap does not wait for an image that the registry does not have.
	n.Clear()
	n = p.fresh(t)
	o = n.Must(1, "bootstrap", "--tag", "none", "--image", "alpha=tiny:none", "--wait", "5m")
	n.untouched(o, "check the image's name and tag there")
	if strings.Contains(o.All(), "waiting for") {
		t.Errorf("it waited:\n%s", o.All())
	}
}

// runParts does what cloud-init does with runcmd: it makes one script of the commands
// (cc_runcmd) and runs it with the user's other scripts (cc_scripts_user). If a script
// fails, cloud-init reports an error.
const runParts = `
import sys
from cloudinit import subp, util
util.write_file(sys.argv[1] + "/runcmd", util.shellify(["set -e", sys.argv[2:], ["touch", sys.argv[1] + "/after"]]), 0o700)
subp.runparts(sys.argv[1])
`

func reportedToCloudInit(t *testing.T, p *protocol) {
	n := p.fresh(t)
	for _, c := range []struct {
		args []string
		ok   bool
	}{{[]string{"--pull", "never"}, false}, {nil, true}, {nil, true}} {
		dir := t.TempDir()
		args := append([]string{"-c", runParts, dir}, n.Command(append([]string{"bootstrap"}, c.args...)...).Args...)
		out, err := exec.Command("/usr/bin/python3", args...).CombinedOutput()
		if (err == nil) != c.ok || !c.ok && !strings.Contains(string(out), "Runparts: 1 failures (runcmd)") {
			t.Fatalf("%v: %v\n%s", c.args, err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "after")); (err == nil) != c.ok {
			t.Errorf("%v: the next command: %v", c.args, err)
		}
		contains(t, string(out), "Z starting bootstrap of compute-1 ", "Z bootstrap finished: ")
		if f := n.finished(); f.OK != c.ok {
			t.Errorf("finished: %+v", f)
		}
	}
}
