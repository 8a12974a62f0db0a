package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// own returns all containers of the node.
func (v *victim) own() ([]containers.Container, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return v.Engine.List(ctx, map[string]string{node.LabelNode: v.Path(node.StateDir)})
}

// passed returns the containers whose services run: those past their gates. It is an
// error if a service has two.
func (v *victim) passed() (map[string]containers.Container, error) {
	all, err := v.own()
	if err != nil {
		return nil, err
	}
	found := map[string]containers.Container{}
	for _, c := range all {
		service := c.Spec.Labels[node.LabelService]
		switch c.State {
		case containers.StateRunning, containers.StatePaused:
		case containers.StateRestarting:
			return nil, fmt.Errorf("%s is restarting", c.Spec.Name)
		default:
			continue
		}
		// Before its gate the process is kollet-start.
		program, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.PID))
		if err != nil || strings.TrimSpace(string(program)) != "tiny" {
			continue
		}
		if other, two := found[service]; two {
			return nil, fmt.Errorf("%s runs twice: %s and %s", service, c.Spec.Name, other.Spec.Name)
		}
		found[service] = c
	}
	return found, nil
}

// whole requires that exactly the containers of one generation run, that they answer with
// its version, and that the engine will start them again.
func (v *victim) whole(tag string) error {
	running, err := v.passed()
	if err != nil {
		return err
	}
	origins, err := v.origins()
	if err != nil {
		return err
	}
	if err := v.restarts(running); err != nil {
		return err
	}
	for i, name := range services {
		c, ok := running[name]
		if !ok {
			return fmt.Errorf("%s does not run", name)
		}
		if g := c.Spec.Labels[node.LabelGeneration]; g != origins[name] {
			return fmt.Errorf("%s runs in the container of generation %s, and not in that of %s", name, g, origins[name])
		}
		pid, word := answer(v.port + i)
		if word != tag || pid != c.PID && parent(pid) != c.PID {
			return fmt.Errorf("%s is process %d of %s, but process %d of %q answers", name, c.PID, tag, pid, word)
		}
	}
	return nil
}

// restarts requires that the engine will start the containers that run again, and no
// others.
func (v *victim) restarts(running map[string]containers.Container) error {
	all, err := v.own()
	if err != nil {
		return err
	}
	for _, c := range all {
		want := containers.RestartNo
		if running[c.Spec.Labels[node.LabelService]].ID == c.ID {
			want = containers.RestartAlways
		}
		if c.Spec.Restart != want {
			return fmt.Errorf("%s is %s and has restart policy %s", c.Spec.Name, c.State, c.Spec.Restart)
		}
	}
	return nil
}

// origins returns, from the files of the current generation, which generation's container
// each service runs in.
func (v *victim) origins() (map[string]string, error) {
	text, err := os.ReadFile(v.Path(node.StateDir + "/current/manifest.json"))
	if err != nil {
		return nil, err
	}
	var record struct {
		Services []struct {
			Name   string
			Origin int
		}
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return nil, err
	}
	origins := map[string]string{}
	for _, s := range record.Services {
		origins[s.Name] = fmt.Sprint(s.Origin)
	}
	return origins, nil
}

// records returns those of the last journal. A last line that is not whole is none.
func (v *victim) records() []journal.Record {
	text, _ := os.ReadFile(v.lastJournal())
	var all []journal.Record
	for line := range strings.Lines(string(text)) {
		var r journal.Record
		if json.Unmarshal([]byte(line), &r) == nil {
			all = append(all, r)
		}
	}
	return all
}

// due is the version on which the journal says that the node ends. before is the last
// journal of before the attempt.
func (v *victim) due(before string) string {
	if v.committed(before) {
		return v.other()
	}
	return v.tag
}

// committed reports whether there is a journal after another one, with a commit.
func (v *victim) committed(before string) bool {
	return v.lastJournal() != before && slices.ContainsFunc(v.records(), func(r journal.Record) bool { return r.Event == journal.Commit })
}

// ended requires that the last journal has its end.
func (v *victim) ended() error {
	all := v.records()
	if len(all) == 0 || all[len(all)-1].Event != journal.End {
		return fmt.Errorf("the journal has no end: %v", all)
	}
	return nil
}

// watch looks for services that run twice, until the returned function is called.
func (v *victim) watch() (twice func() error) {
	return watching(func() error {
		for name, all := range v.among(recent.look()) {
			if len(all) > 1 {
				return fmt.Errorf("%s ran twice at one time: processes %v", name, all)
			}
		}
		return nil
	})
}

const watchPeriod = 20 * time.Millisecond

// watching looks every watchPeriod, until the returned function is called, which returns the first
// error.
func watching(look func() error) (result func() error) {
	end, found := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			if err := look(); err != nil {
				found <- err
				return
			}
			select {
			case <-end:
				found <- nil
				return
			case <-time.After(watchPeriod):
			}
		}
	}()
	return func() error {
		close(end)
		return <-found
	}
}

// serving returns the processes past their gates of each service, at one time.
func (v *victim) serving() map[string][]int { return v.among(tinies()) }

// among does the same with command lines of processes.
func (v *victim) among(lines map[int]string) map[string][]int {
	all := map[string][]int{}
	for pid, line := range lines {
		if name := v.serves(line); name != "" {
			all[name] = append(all[name], pid)
		}
	}
	for name, pids := range all {
		if len(pids) > 1 { // the first may have exited before the last began to serve
			all[name] = slices.DeleteFunc(pids, func(pid int) bool { return v.serves(tiny(pid)) != name })
		}
	}
	return all
}

// serves returns the service that a process past its gate with a command line is; empty if
// it is none.
func (v *victim) serves(line string) string {
	for i, name := range services {
		if strings.Contains(line, fmt.Sprintf("\x00serve\x00127.0.0.1:%d\x00", v.port+i)) {
			return name
		}
	}
	return ""
}

// tiny returns the command line of a service's process past its gate: before, it is
// kollet-start.
func tiny(pid int) string {
	program, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if string(program) != "tiny\n" {
		return ""
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(line)
}

// tinies returns those of all processes that have one.
func tinies() map[int]string {
	all := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if line := tiny(pid); line != "" {
				all[pid] = line
			}
		}
	}
	return all
}

// recent is what the watches of all nodes look at: a look costs as much as all else that
// a node's test does.
var recent recently

type recently struct {
	mutex sync.Mutex
	at    time.Time
	lines map[int]string
}

// look returns what tinies returns, or returned at most watchPeriod ago.
func (r *recently) look() map[int]string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if time.Since(r.at) > watchPeriod {
		r.at, r.lines = time.Now(), tinies()
	}
	return r.lines
}

// clean requires that the engine has no other containers than those of the services.
func (v *victim) clean() error {
	own, err := v.own()
	if err != nil {
		return err
	}
	if len(own) == len(services) {
		return nil
	}
	names := make([]string, len(own))
	for i, c := range own {
		names[i] = fmt.Sprintf("%s (%s)", c.Spec.Name, c.State)
	}
	return fmt.Errorf("containers are left: %s", strings.Join(names, ", "))
}

// answer returns what the service at a port answers.
func answer(port int) (pid int, word string) {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Minute)
	if err != nil {
		return 0, err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fscanln(conn, &pid, &word)
	return pid, word
}
