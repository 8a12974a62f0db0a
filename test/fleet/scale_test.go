//go:build scale

package fleet

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/site"
	"github.com/kollet/kollet/test/tiny/image"
)

// forks is how many nodes are upgraded at once, with and without Ansible.
const forks = 10

// TestScale measures how much processor time a fleet takes; `make bench-fleet` runs it.
// All nodes are on this machine: each is a directory, a namespace of one containerd,
// and an address of one SSH server. The nodes therefore share this machine's
// processors, and the network is a loopback device.
func TestScale(t *testing.T) {
	var lines []string
	for _, count := range []int{10, 50, 100} {
		t.Run(fmt.Sprint(count), func(t *testing.T) { lines = append(lines, measure(t, count)...) })
	}
	report := strings.Join(lines, "\n") + "\n"
	t.Logf("\n%s", report)
	dir := os.Getenv("KOLLET_BUILD")
	if dir == "" {
		dir = "../../build"
	}
	check(t, os.MkdirAll(filepath.Join(dir, "bench"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "bench", "fleet.txt"), []byte(report), 0o644))
}

// cost is the time that a run took: elapsed time, processor time of all processes, and
// processor time of the first process, which has one thread. Processes that containerd
// and the SSH server start are not included; on real nodes they run on the nodes.
type cost struct{ wall, all, first time.Duration }

// watch measures a started command until wait returns.
func watch(cmd *exec.Cmd, begun time.Time, wait func()) cost {
	var c cost
	ended := make(chan struct{})
	var polled sync.WaitGroup
	polled.Go(func() {
		for {
			if own, err := ownTime(cmd.Process.Pid); err == nil {
				c.first = own
			}
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	wait()
	close(ended)
	polled.Wait()
	c.wall, c.all = time.Since(begun), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	return c
}

// ownTime returns the processor time of a process without its children: utime and stime
// of /proc/PID/stat, in hundredths of a second (proc(5)).
func ownTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has fewer fields than expected: %q", pid, text)
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, err
}

func (c cost) line(count int, what string) string {
	n := float64(count)
	return fmt.Sprintf("%4d nodes  %-34s %7.1f s  processors %6.1f s (%.2f per node), first process %5.1f s (%.3f per node)",
		count, what, c.wall.Seconds(), c.all.Seconds(), c.all.Seconds()/n, c.first.Seconds(), c.first.Seconds()/n)
}

func measure(t *testing.T, count int) (lines []string) {
	s := &site.Site{T: t, Dir: machine.Dir(t, "fleet")}
	s.Registry = machine.NewRegistry(t)
	s.Keys("127.1.*")
	daemon(s)
	for _, tag := range []string{"v1", "v2", "v3"} {
		image.Image{Tag: tag}.Push(t, s.Registry.Addr, "test/tiny")
	}
	m := &many{control: newControl(s, forks), engine: machine.NewContainerd(t)}
	m.inventory(count)
	note := func(c cost, what string) {
		lines = append(lines, c.line(count, what))
		t.Log(lines[len(lines)-1])
	}
	play := func(what, name string, texts ...string) {
		p := m.begin(name)
		note(watch(p.cmd, p.begun, func() { p.wait().exits(0).prints(texts...) }), what)
	}
	m.version("v1")
	play("Ansible: one task", "configure")
	note(m.alone("bootstrap", "committed"), "kollet alone: bootstrap")
	m.version("v2")
	play("Ansible: upgrade, 1, 10 %, 30 %", "upgrade", fmt.Sprintf("%d committed", count))
	m.version("v3")
	m.edit("v2", "v3")
	note(m.alone("upgrade", "committed"), "kollet alone: upgrade")
	note(m.alone("upgrade", "nothing to do"), "kollet alone: nothing to do")
	play("Ansible: upgrade, nothing to do", "upgrade", fmt.Sprintf("%d nothing to do", count))
	return lines
}

// many is a fleet whose nodes share one machine.
type many struct {
	*control
	engine *machine.Containerd
	names  []string
	binary string
}

// daemon starts an SSH server that listens on all addresses of the loopback device.
func daemon(s *site.Site) {
	s.T.Helper()
	check(s.T, os.MkdirAll("/run/sshd", 0o755))
	cmd := exec.Command("/usr/sbin/sshd", "-D", "-f", s.Path("sshd_config"))
	check(s.T, cmd.Start())
	s.T.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// inventory writes an inventory of nodes with one service each.
func (m *many) inventory(count int) {
	m.T.Helper()
	var err error
	m.binary, err = filepath.Abs("../../bin/kollet")
	check(m.T, err)
	hosts := ""
	for i := 1; i <= count; i++ {
		name := fmt.Sprintf("n%03d", i)
		m.names = append(m.names, name)
		check(m.T, os.MkdirAll(m.Path(name+"/etc/kollet"), 0o755))
		hosts += fmt.Sprintf("    %s: {ansible_host: 127.1.0.%d, service_port: \"%d\"}\n", name, i, 20000+i)
	}
	m.Write("inventory/hosts.yml", "kollet:\n  hosts:\n"+hosts+"  vars: {ansible_user: root}\n")
	m.Write("inventory/group_vars/kollet/kollet.yml", fmt.Sprintf(`
kollet_binary: %s
kollet_root: %q
kollet_engine: %q
kollet_host: "{{ inventory_hostname }}"
kollet_unit: false
kollet_node:
  profile: none
  engine: containerd
  images: {registry: %s/test, tag: "{{ version }}"}
  vars: {port: "{{ service_port }}"}
  services:
    alpha:
      image: tiny
      command: [serve, !unsafe "127.0.0.1:{{ .vars.port }}"]
      healthcheck: [{tcp: !unsafe "127.0.0.1:{{ .vars.port }}", start_period: 30s, stable: 200ms, interval: 50ms}]
`, m.binary, m.Path("{{ inventory_hostname }}"), m.address("{{ inventory_hostname }}"), m.Registry.Addr))
	m.T.Cleanup(m.clear)
}

// address returns the address of a node's engine: a namespace, whose name is also that
// of its cgroups.
func (m *many) address(name string) string {
	return m.engine.Address + "?namespace=" + filepath.Base(machine.CgroupParent()) + "-" + name
}

// edit changes the tag in all node files, as Ansible does.
func (m *many) edit(from, to string) {
	m.T.Helper()
	for _, name := range m.names {
		path := m.Path(name + "/etc/kollet/node.yaml")
		data, err := os.ReadFile(path)
		check(m.T, err)
		check(m.T, os.WriteFile(path, bytes.ReplaceAll(data, []byte("tag: "+from), []byte("tag: "+to)), 0o600))
	}
}

// alone runs kollet on all nodes without Ansible, on as many at once as Ansible does.
func (m *many) alone(command, outcome string) cost {
	m.T.Helper()
	var commands strings.Builder
	for _, name := range m.names {
		fmt.Fprintf(&commands, "%s -o json --root %s --engine '%s' --host %s %s >%s 2>&1\n", m.binary, m.Path(name), m.address(name), name, command, m.Path(name+"/out"))
	}
	cmd := exec.Command("xargs", "-P", fmt.Sprint(forks), "-d", "\n", "-I", "{}", "sh", "-c", "{}")
	cmd.Stdin = strings.NewReader(commands.String())
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	check(m.T, cmd.Start())
	c := watch(cmd, begun, func() {
		if err := cmd.Wait(); err != nil {
			m.T.Fatalf("kollet %s: %v\n%s", command, err, out.String())
		}
	})
	for _, name := range m.names {
		data, err := os.ReadFile(m.Path(name + "/out"))
		if err != nil || !strings.Contains(string(data), fmt.Sprintf(`"outcome": %q`, outcome)) {
			m.T.Fatalf("%s: %v, want %s\n%s", name, err, outcome, data)
		}
	}
	return c
}

// clear kills the containers. Their cgroups are not below the test machine's, so they
// are not removed with it.
func (m *many) clear() {
	m.engine.Stop()
	var groups []string
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		found, _ := filepath.Glob(hierarchy + "/" + filepath.Base(machine.CgroupParent()) + "-n*/*/cgroup.procs")
		groups = append(groups, found...)
	}
	for _, procs := range groups {
		for range 500 {
			pids, err := os.ReadFile(procs)
			if err != nil || len(pids) == 0 {
				break
			}
			for pid := range strings.FieldsSeq(string(pids)) {
				if n, err := strconv.Atoi(pid); err == nil && n > 1 {
					_ = syscall.Kill(n, syscall.SIGKILL)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		_ = os.Remove(filepath.Dir(procs))
		_ = os.Remove(filepath.Dir(filepath.Dir(procs)))
	}
}
