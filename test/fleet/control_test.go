package fleet

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kollet/kollet/test/site"
)

// control is the control machine: Ansible, the installed collection, and an
// inventory.
type control struct {
	*site.Site
	nodes       []testNode
	collections string
}

// controlPaths is the directory of the sockets of SSH connections. It is short, because
// paths of Unix sockets are limited to 108 bytes.
const controlPaths = "/run/ansible-cp"

// newControl builds and installs the collection. forks is how many nodes Ansible works
// on at once.
func newControl(s *site.Site, forks int) *control {
	s.T.Helper()
	c := &control{Site: s, collections: s.Path("collections")}
	for _, n := range s.Nodes {
		c.nodes = append(c.nodes, testNode{n})
	}
	source, err := filepath.Abs("../../playbooks")
	check(s.T, err)
	s.Write("ansible.cfg", fmt.Sprintf(`[defaults]
inventory = %[1]s/inventory/hosts.yml
collections_path = %[2]s
remote_tmp = /run/.ansible
local_tmp = %[1]s/tmp
forks = %[5]d
timeout = 5
retry_files_enabled = false
interpreter_python = /usr/bin/python3
[ssh_connection]
pipelining = true
ssh_args = -o ControlMaster=auto -o ControlPersist=60s
ssh_extra_args = %[3]s
control_path_dir = %[4]s
`, s.Dir, c.collections, strings.Join(s.SSHArgs(), " "), controlPaths, forks))
	c.mustRun("ansible-galaxy", "collection", "build", "--output-path", s.Path("built"), source)
	archives, err := filepath.Glob(s.Path("built/*.tar.gz"))
	if err != nil || len(archives) != 1 {
		s.T.Fatalf("built %v, %v; want one archive", archives, err)
	}
	c.mustRun("ansible-galaxy", "collection", "install", "--offline", "--collections-path", c.collections, archives[0])
	return c
}

// command returns a command that runs one of Ansible's programs. They are scripts, and
// need Debian's Python even if PATH has another one first.
func (c *control) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/usr/bin/python3", append([]string{"/usr/bin/" + name}, args...)...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), "ANSIBLE_CONFIG="+c.Path("ansible.cfg"), "PWD="+c.Dir, "HOME="+c.Path("home"), "LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (c *control) mustRun(name string, args ...string) string {
	c.T.Helper()
	out, err := c.command(name, args...).CombinedOutput()
	if err != nil {
		c.T.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// run is the result of a playbook.
type run struct {
	c    *control
	what string
	code int
	out  string
}

// playing is a running playbook.
type playing struct {
	c     *control
	what  string
	begun time.Time
	cmd   *exec.Cmd
	out   *bytes.Buffer
}

// begin starts one of the collection's playbooks.
func (c *control) begin(name string, args ...string) *playing {
	c.T.Helper()
	p := &playing{c: c, what: strings.Join(append([]string{name}, args...), " "), begun: time.Now(), out: &bytes.Buffer{}}
	p.cmd = c.command("ansible-playbook", append([]string{"kollet.kollet." + name}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	check(c.T, p.cmd.Start())
	return p
}

// wait waits for the playbook and returns its result. No output may hold a secret.
func (p *playing) wait() run {
	p.c.T.Helper()
	_ = p.cmd.Wait() // the exit status is in ProcessState
	r := run{p.c, p.what, p.cmd.ProcessState.ExitCode(), p.out.String()}
	p.c.T.Logf("%s: exit status %d, %.1f s", r.what, r.code, time.Since(p.begun).Seconds())
	return r.omits(secret)
}

// play runs one of the collection's playbooks.
func (c *control) play(name string, args ...string) run {
	c.T.Helper()
	return c.begin(name, args...).wait()
}

// exits requires an exit status: 0, or 2 if a node failed.
func (r run) exits(code int) run {
	r.c.T.Helper()
	if r.code != code {
		r.c.T.Fatalf("%s: exit status %d, want %d\n%s", r.what, r.code, code, r.out)
	}
	return r
}

// prints requires each of the texts in the output, ignoring white space.
func (r run) prints(texts ...string) run {
	r.c.T.Helper()
	flat := strings.Join(strings.Fields(r.out), " ")
	for _, text := range texts {
		if !strings.Contains(flat, text) {
			r.c.T.Fatalf("%s: %q is missing in:\n%s", r.what, text, r.out)
		}
	}
	return r
}

// omits requires that none of the texts is in the output.
func (r run) omits(texts ...string) run {
	r.c.T.Helper()
	for _, text := range texts {
		if strings.Contains(r.out, text) {
			r.c.T.Fatalf("%s: %q is in:\n%s", r.what, text, r.out)
		}
	}
	return r
}

// unchanged requires that, according to the recap, no task changed any node.
func (r run) unchanged() run {
	r.c.T.Helper()
	for _, n := range r.c.nodes {
		found := false
		for line := range strings.Lines(r.out) {
			found = found || strings.HasPrefix(line, n.Name+" ") && strings.Contains(line, " changed=0 ")
		}
		if !found {
			r.c.T.Fatalf("%s: something changed on %s\n%s", r.what, n.Name, r.out)
		}
	}
	return r
}

// pidOf returns the process ID in a path below /proc.
func pidOf(path string) int {
	pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
	return pid
}
