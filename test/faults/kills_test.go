package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/nodetest"
)

// What is killed after a record of the journal. An engine is started again at once, as
// systemd does, or when the command has ended.
var (
	killedKollet = fault{name: "kollet is killed"}
	starvedOfAll = fault{name: "kollet gets no more memory"}
	killedEngine = fault{name: "the engine is killed"}
	lostEngine   = fault{name: "the engine is killed and stays away"}
	killedChild  = fault{name: "dockerd's containerd is killed"}
	killedOld    = fault{name: "the shims of the old containers are killed"}
	killedNew    = fault{name: "the shims of the new containers are killed"}
)

// killSuite kills kollet, the engine and shims. The calls that its triggers count are the
// records of the journal.
type killSuite struct {
	engine nodetest.Engine
	fault  []fault
}

func newKillSuite(e nodetest.Engine) killSuite {
	s := killSuite{e, []fault{killedKollet, starvedOfAll, killedEngine, lostEngine, killedOld, killedNew}}
	if e.Name == "docker" {
		s.fault = append(s.fault, killedChild)
	}
	return s
}

func (killSuite) scenarios() []scenario {
	return []scenario{upgrades, rollsBack, rollbackCommand, recoversBack, recoversTheUpgrade}
}

func (s killSuite) faults() []fault { return s.fault }

// applies leaves out kills of kollet in a scenario that is a recovery: they come after
// every kill of the other ones.
func (killSuite) applies(s scenario, f fault, call string) bool {
	switch f {
	case killedKollet, starvedOfAll:
		return s.event == ""
	case killedOld:
		return strings.Contains(call, besideOld)
	case killedNew:
		return strings.Contains(call, besideNew)
	}
	return true
}

// depth is how many commands in a row are killed.
const depth = 3

// again returns every kill of kollet in the recovery after kollet was killed, and one of
// the other faults.
func (s killSuite) again(r *rand.Rand, a attempt, calls []string) []strike {
	if len(a.strikes) == depth {
		return nil
	}
	all := anywhere(r, s, calls)
	if a.last().fault != killedKollet {
		return all
	}
	all = slices.DeleteFunc(all, func(s strike) bool { return s.fault == killedKollet })
	for n := range calls {
		all = append(all, strike{killedKollet, n + 1})
	}
	return all
}

// patience is for Docker, which waits longer each time before it starts a container again.
func (killSuite) patience() time.Duration { return 30 * time.Second }

func (s killSuite) run(v *victim, f fault, t *trigger, args []string) nodetest.Outcome {
	var starting sync.WaitGroup
	o := v.Stepwise(args, func(kollet int) (kill bool) {
		if t.injected() != "" || !t.fires(v.lastRecord()) {
			return false
		}
		switch f {
		case killedKollet:
			return true
		case killedEngine, lostEngine:
			if s.engine.Name == "docker" { // without live-restore it ends its containers when it is back
				old, replacing := v.generations()
				v.exposed = v.exposed || v.inside(append(old, replacing...))
			}
			s.engine.Kill()
			if f == killedEngine {
				starting.Go(s.engine.Start)
			}
		case starvedOfAll:
			v.starve(kollet, 64<<10<<(t.at%6)) // up to 2 MiB: it is killed before the next record, or later
		case killedChild:
			v.killManaged(s.engine)
		default:
			v.killShims(f == killedOld)
		}
		return false
	})
	starting.Wait()
	s.engine.Start()
	if f == killedChild && t.injected() != "" {
		check(v.T, settled(s, v.executes))
	}
	return o
}

// executes requires that the engine executes a command in each container that runs. dockerd
// needs ten seconds to notice that its containerd is gone, and answers other calls meanwhile.
func (v *victim) executes() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	old, replacing := v.generations()
	for _, c := range append(old, replacing...) {
		if _, err := v.Engine.Exec(ctx, c.ID, containers.Exec{Argv: []string{"/bin/tiny", "say"}, Short: true}); err != nil {
			return err
		}
	}
	return nil
}

// What the name of a record says about the containers that run beside it.
const (
	besideOld = " beside old"
	besideNew = " beside new"
)

// lastRecord names the last record of the journal and what runs beside it.
func (v *victim) lastRecord() string {
	var name string
	if all := v.records(); len(all) > 0 {
		last := all[len(all)-1]
		name = strings.TrimSpace(fmt.Sprintf("%s %s", last.Event, last.Step))
	}
	old, replacing := v.generations()
	if len(old) > 0 {
		name += besideOld
	}
	if len(replacing) > 0 {
		name += besideNew
	}
	return name
}

// generations returns the containers that run: those that were there before the last
// journal, and those of its generation.
func (v *victim) generations() (old, replacing []containers.Container) {
	var to int
	_, _ = fmt.Sscanf(filepath.Base(v.lastJournal()), "%d", &to)
	all, err := v.own()
	check(v.T, err)
	for _, c := range all {
		switch {
		case c.PID == 0:
		case c.Spec.Labels[node.LabelGeneration] == strconv.Itoa(to):
			replacing = append(replacing, c)
		default:
			old = append(old, c)
		}
	}
	return old, replacing
}

// killShims kills the shims of the old or of the new containers, and waits for what comes
// of it: the engine cannot know any longer what becomes of the containers, and kills them.
func (v *victim) killShims(ofOld bool) {
	chosen, replacing := v.generations()
	if !ofOld {
		chosen = replacing
	}
	v.exposed = v.exposed || v.inside(chosen)
	for _, c := range chosen {
		if shim := parent(c.PID); shim > 1 {
			_ = unix.Kill(shim, unix.SIGKILL)
		}
	}
	for _, c := range chosen {
		for range 1000 {
			if unix.Kill(c.PID, 0) != nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// killManaged kills the containerd that dockerd runs. dockerd starts it again.
func (v *victim) killManaged(e nodetest.Engine) {
	config := strings.TrimSuffix(strings.TrimPrefix(e.Socket, "unix://"), ".sock") + "/containerd/containerd.toml"
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		if !strings.HasPrefix(string(line), "containerd\x00") || !strings.Contains(string(line), config) {
			continue
		}
		var pid int
		_, err := fmt.Sscanf(path, "/proc/%d/", &pid)
		check(v.T, err)
		check(v.T, unix.Kill(pid, unix.SIGKILL))
		return
	}
	v.T.Error("dockerd has no containerd")
}

// parent returns the parent of a process.
func parent(pid int) int {
	n, _ := strconv.Atoi(stat(pid, 1))
	return n
}

// stat returns a field of /proc/PID/stat (proc_pid_stat(5)), counted from that after the
// name: 0 is the state, 1 the parent, 19 the start time. It is empty if there is no process.
func stat(pid, field int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	if fields := strings.Fields(rest); field < len(fields) {
		return fields[field]
	}
	return ""
}
