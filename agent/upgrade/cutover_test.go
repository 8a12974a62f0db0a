package upgrade

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
)

// cutoverNode is a node with real processes, whose cgroups are in a made-up /proc
// and a made-up cgroup hierarchy.
type cutoverNode struct {
	*testing.T
	node  *node.Node
	notes []string
	dir   string
}

// unconnected are Unix sockets without another end.
func unconnected(int) (map[uint64]uint64, error) { return map[uint64]uint64{}, nil }

func newCutoverNode(t *testing.T) *cutoverNode {
	t.Helper()
	c := &cutoverNode{T: t, dir: t.TempDir()}
	c.node = &node.Node{
		Root: c.dir, Host: host.Host{Proc: c.dir + "/proc", Run: c.dir + "/run", Now: time.Now, SocketPeers: unconnected},
		Report: func(e node.Event) { c.notes = append(c.notes, e.Text) },
	}
	c.write("proc/self/cgroup", "2:pids:/\n")
	c.write("proc/self/mountinfo", "1 0 0:1 / "+c.dir+"/cgroup rw - cgroup none rw,pids\n2 0 8:1 / "+c.dir+" rw - ext4 /dev/sda1 rw\n")
	return c
}

func (c *cutoverNode) write(name, content string) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cutoverNode) link(name, target string) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.Symlink(target, path)
	}
	if err != nil {
		c.Fatal(err)
	}
}

// start starts a process in a cgroup. It has begun to run the script when it has
// printed a line.
func (c *cutoverNode) start(cgroup, script string) *exec.Cmd {
	c.Helper()
	cmd := exec.Command("sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		c.Fatal(err)
	}
	pid := cmd.Process.Pid
	c.write(fmt.Sprintf("proc/%d/cgroup", pid), "2:pids:"+cgroup+"\n")
	c.write(fmt.Sprintf("proc/%d/task/%[1]d/cgroup", pid), "2:pids:"+cgroup+"\n")
	stat := fmt.Sprintf("%d (sh) S 1 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %d 99", pid, 1000+pid)
	c.write(fmt.Sprintf("proc/%d/stat", pid), stat)
	c.write(fmt.Sprintf("proc/%d/task/%[1]d/stat", pid), stat)
	c.write(fmt.Sprintf("proc/%d/cmdline", pid), "sh\x00")
	c.write(fmt.Sprintf("proc/%d/comm", pid), "sh\n")
	return cmd
}

// list makes these the processes of a cgroup.
func (c *cutoverNode) list(cgroup string, processes ...*exec.Cmd) {
	c.Helper()
	var pids []string
	for _, p := range processes {
		pids = append(pids, strconv.Itoa(p.Process.Pid))
	}
	c.write("cgroup"+cgroup+"/cgroup.procs", strings.Join(pids, "\n")+"\n")
}

// task is the running container of a service with this first process.
func (c *cutoverNode) task(s generation.Service, first *exec.Cmd) oldTask {
	c.Helper()
	p, err := host.Open(first.Process.Pid)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(p.Close)
	cgroup, err := c.node.Host.CgroupOf(first.Process.Pid)
	if err != nil {
		c.Fatal(err)
	}
	return oldTask{service: s, process: p, cgroup: cgroup}
}

// ended reports whether a process has ended.
func ended(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	p, err := host.Open(cmd.Process.Pid)
	if err != nil {
		return true
	}
	defer p.Close()
	has, err := p.Exited(0)
	if err != nil {
		t.Fatal(err)
	}
	return has
}

// loop is the end of a script that runs until a signal ends it.
const loop = "echo ready; while :; do sleep 0.01; done"

func TestStopFast(t *testing.T) {
	for _, c := range []struct {
		name   string
		script string
		signal string
		grace  time.Duration
		note   string // part of the only note; empty: none
	}{
		{"its signal", "trap 'exit 0' USR1; trap '' TERM; " + loop, "SIGUSR1", time.Hour, ""},
		{"a real-time signal", "trap 'exit 0' 37; trap '' TERM; " + loop, "SIGRTMIN+3", time.Hour, ""},
		{"an unknown signal", "trap 'exit 0' TERM; " + loop, "SIGNONE", time.Hour, ""},
		{"no signal", "trap 'exit 0' TERM; " + loop, "", time.Hour, ""},
		{"ignored", "trap '' TERM; " + loop, "SIGTERM", 30 * time.Millisecond, "did not stop within 30ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCutoverNode(t)
			first := n.start("/docker/abc", c.script)
			helper := n.start("/docker/abc", loop)     // left behind by the first process
			below := n.start("/docker/abc/x", loop)    // in a cgroup that the container created
			moved := n.start("/machine/guest", loop)   // still listed, but moved meanwhile
			neighbour := n.start("/docker/abcd", loop) // in another container
			n.list("/docker/abc", first, helper, moved)
			n.list("/docker/abc/x", below)
			n.list("/docker/abcd", neighbour)
			err := stopFast(t.Context(), n.node, n.task(generation.Service{Name: "alpha", StopSignal: c.signal, StopGracePeriod: c.grace}, first))
			if err != nil {
				t.Fatal(err)
			}
			for name, p := range map[string]*exec.Cmd{"first": first, "helper": helper, "below": below} {
				if !ended(t, p) {
					t.Errorf("%s process still runs", name)
				}
			}
			for name, p := range map[string]*exec.Cmd{"moved": moved, "neighbour": neighbour} {
				if ended(t, p) {
					t.Errorf("%s process has ended", name)
				}
			}
			if (c.note == "") != (len(n.notes) == 0) || c.note != "" && !strings.Contains(n.notes[0], c.note) {
				t.Errorf("notes %q", n.notes)
			}
		})
	}
}

// The last service of a group stops first and starts last. The clock moves at each
// look.
func TestHandOver(t *testing.T) {
	n := newCutoverNode(t)
	var looks atomic.Int64
	n.node.Host.Now = func() time.Time { return time.UnixMilli(looks.Add(1)) }
	var old []oldTask
	var starting []newTask
	tx := newTransaction(n.node, nil, generation.Generation{})
	tx.to.Number = 2
	for _, name := range []string{"alpha", "beta"} {
		service := generation.Service{Name: name, StopSignal: "SIGTERM", StopGracePeriod: time.Hour}
		first := n.start("/docker/"+name, "trap 'date +%s%N >"+n.dir+"/"+name+"; exit 0' TERM; "+loop)
		n.list("/docker/"+name, first)
		old = append(old, n.task(service, first))
		staged := n.start("/docker/"+name+"-new", loop)
		p, err := host.Open(staged.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		starting = append(starting, newTask{id: name, service: service, process: p})
		if err := gate.Make(n.node.Store().Gate(2, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.handOver(t.Context(), old, starting); err != nil {
		t.Fatal(err)
	}
	var stopped []string
	for _, name := range []string{"alpha", "beta"} {
		if err := tx.watch.wait(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if !gate.IsOpen(n.node.Store().Gate(2, name)) {
			t.Errorf("the gate of %s is closed", name)
		}
		data, err := os.ReadFile(n.dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		stopped = append(stopped, strings.TrimSpace(string(data))+" "+name)
	}
	tx.watch.stop()
	slices.Sort(stopped)
	if !strings.HasSuffix(stopped[0], "beta") {
		t.Errorf("stopped in the order %q, want the last one first", stopped)
	}
	for name, gap := range tx.watch.gaps {
		if gap.Ended <= 0 || gap.Opened <= gap.Ended || gap.Healthy <= gap.Opened {
			t.Errorf("%s: %+v", name, gap)
		}
	}
	if len(tx.watch.gaps) != 2 || tx.watch.gaps["beta"].Opened < tx.watch.gaps["alpha"].Opened {
		t.Errorf("gaps %+v: beta stops first and is opened last", tx.watch.gaps)
	}
}
