package guest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kollet/kollet/agent/host"
)

// Process is a process of a container that is neither its service nor a guest.
type Process struct {
	Name string `json:"name"` // of its program, at most 15 bytes
	PID  int    `json:"pid"`
}

// String escapes the name, which the process can choose.
func (p Process) String() string {
	return fmt.Sprintf("%s (process %d)", strings.Trim(strconv.Quote(p.Name), `"`), p.PID)
}

// Sorted is what happens to the processes of a container when its service is stopped
// while guests run. The service itself is none of them.
type Sorted struct {
	Guests  []Guest
	Helpers []Process // serve guests, and are kept with them
	Ending  []Process // end with the service
}

// Kept returns the processes that outlive the service.
func (s Sorted) Kept() []int {
	var pids []int
	for _, g := range s.Guests {
		pids = append(pids, g.PID)
	}
	for _, p := range s.Helpers {
		pids = append(pids, p.PID)
	}
	return pids
}

// Sorter tells the helpers of guests from the other processes of a container. A program's
// name says nothing, so it goes by what a process is to the guests of the node. It is a
// helper if
//
//   - it is tied to a guest, by a socket, a pipe or shared memory, as swtpm is and
//     virtlogd, which reads a guest's console;
//   - or it is a daemon, which left the service that started it: libvirt starts what has
//     to outlive it in this way, also what no guest is connected to, such as dnsmasq;
//   - or it is tied to a helper, or is a parent, a child or in the session of one.
//
// The service is the container's first process and, if that is an init such as dumb-init, what
// the init started, whatever program that has executed since; copies of these; and a program that
// the first one's arguments name, or the command that the start script of Kolla's images runs. It is
// never a helper, although it is tied to every guest.
//
// A Sorter is made while the first process runs, except by SorterAfter. Sort may be called
// again, also after that process has exited: what it has left behind is still told from
// daemons.
type Sorter struct {
	finder   Finder
	first    int
	sessions map[int]bool     // of the service
	args     []string         // of the first process
	service  []process        // behind the first process, if that is an init
	copied   [][]string       // arguments that those have, or had
	command  []string         // that the service runs, if the first one's arguments do not tell
	log      map[string]bool  // pipes to the engine, which reads the output of commands
	ties     map[string]bool  // of the guests, and of the helpers that were found
	any      bool             // guests run on this node
	daemons  map[process]bool // those that were seen, and whether they are daemons
	shims    map[int]bool     // whose pipes are in log
}

func (f Finder) sorter(command []string) *Sorter {
	return &Sorter{
		finder: f, sessions: map[int]bool{}, command: command, log: map[string]bool{}, ties: map[string]bool{},
		daemons: map[process]bool{}, shims: map[int]bool{},
	}
}

// process is a process, not merely a number.
type process struct {
	pid   int
	start uint64
}

// Sorter prepares to sort the processes of a container with this first process, which runs a
// command, if that is known.
func (f Finder) Sorter(cgroup host.Cgroup, first int, command []string) (*Sorter, error) {
	s := f.sorter(command)
	s.first = first
	own, err := f.Host.Lineage(first)
	if err == nil {
		s.sessions[own.Session] = true
		s.args, err = f.Host.CommandLine(first)
	}
	if host.Gone(err) {
		err = host.ErrExited
	}
	if err != nil {
		return nil, fmt.Errorf("find what serves guests: process %d: %w", first, err)
	}
	if err := s.findService(); err != nil {
		return nil, err
	}
	if err := s.addLog(first, 3); err != nil {
		return nil, err
	}
	if cgroup.Shim > 0 {
		if err := s.addLog(cgroup.Shim, -1); err != nil {
			return nil, err
		}
	}
	return s, s.addGuests()
}

// addGuests adds the ties of all guests that run.
func (s *Sorter) addGuests(pids ...int) error {
	guests, err := s.finder.Find()
	if err != nil {
		return err
	}
	s.any = len(guests) > 0
	peers := s.peers(pids...)
	for _, g := range guests {
		if err := s.addTies(g.PID, peers); err != nil {
			return err
		}
	}
	return nil
}

// SorterAfter prepares to sort what is left in the cgroup of a container after its first
// process, which had these arguments and ran a command, has exited. What is in the session of
// the service, if that is left, is no daemon.
func (f Finder) SorterAfter(cgroup host.Cgroup, args, command []string) (*Sorter, error) {
	s := f.sorter(command)
	s.args = args
	pids, err := cgroup.Processes()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		args, err := f.Host.CommandLine(pid)
		if err != nil || len(args) == 0 || !s.isService(args) {
			continue // it has exited, or is no service
		}
		if lineage, err := f.Host.Lineage(pid); err == nil {
			s.sessions[lineage.Session] = true
		}
	}
	return s, s.addGuests(pids...)
}

func (s *Sorter) addLog(pid, first int) error {
	pipes, err := s.finder.Host.Pipes(pid, first)
	if err != nil {
		return fmt.Errorf("find what serves guests: process %d: %w", pid, err)
	}
	for _, pipe := range pipes {
		s.log[pipe] = true
	}
	return nil
}

// addShims adds the pipes of the shims that have started the processes: Podman has one for each command.
func (s *Sorter) addShims(pids []int) error {
	for _, pid := range pids {
		parent, err := s.finder.Host.Parent(pid)
		if err != nil || s.shims[parent] || slices.Contains(pids, parent) || !s.finder.Host.IsShim(parent) {
			continue // it has exited, or has been started by another one
		}
		if err := s.addLog(parent, -1); err != nil {
			return err
		}
		s.shims[parent] = true
	}
	return nil
}

// peers asks for the sockets of the first process's network namespace or, after it has
// exited, that of another of the processes. It returns nil if the kernel cannot tell: then
// everything with a socket is tied.
func (s *Sorter) peers(pids ...int) map[uint64]uint64 {
	if s.first > 0 {
		pids = append([]int{s.first}, pids...)
	}
	for _, pid := range pids {
		if peers, err := s.finder.Host.SocketPeers(pid); err == nil {
			return peers
		} else if !host.Gone(err) {
			return nil
		}
	}
	return nil
}

func (s *Sorter) addTies(pid int, peers map[uint64]uint64) error {
	ties, err := s.tiesOf(pid, peers)
	for _, tie := range ties {
		s.ties[tie] = true
	}
	return err
}

func (s *Sorter) tiesOf(pid int, peers map[uint64]uint64) ([]string, error) {
	ties, err := s.finder.Host.Ties(pid, peers)
	if err != nil {
		return nil, fmt.Errorf("find what serves guests: process %d: %w", pid, err)
	}
	return slices.DeleteFunc(ties, func(tie string) bool { return s.log[tie] }), nil
}

// Sort sorts the processes of the container's cgroup. Without guests nothing is a helper.
func (s *Sorter) Sort(pids []int) (Sorted, error) {
	if !slices.ContainsFunc(pids, func(pid int) bool { return pid != s.first }) {
		return Sorted{}, nil
	}
	if err := s.seeService(); err != nil {
		return Sorted{}, err
	}
	guests, err := s.finder.Inside(pids)
	if err != nil {
		return Sorted{}, err
	}
	sorted := Sorted{Guests: guests}
	peers := s.peers(pids...)
	for _, g := range guests {
		s.any = true
		s.ties[of("process", g.PID)] = true
		if err := s.addTies(g.PID, peers); err != nil {
			return sorted, err
		}
	}
	candidates, err := s.candidates(pids, guests, peers)
	if err != nil {
		return sorted, err
	}
	for _, c := range candidates {
		if s.isDaemon(c, pids) && s.any {
			s.keep(c)
		}
	}
	if !s.any {
		return sorted, nil
	}
	for again := true; again; { // what is tied to a helper is one
		again = false
		for _, c := range candidates {
			if !c.kept && slices.ContainsFunc(c.ties, func(tie string) bool { return s.ties[tie] }) {
				s.keep(c)
				again = true
			}
		}
	}
	for _, c := range candidates {
		if c.kept {
			sorted.Helpers = append(sorted.Helpers, c.Process)
		} else {
			sorted.Ending = append(sorted.Ending, c.Process)
		}
	}
	return sorted, nil
}

func (s *Sorter) keep(c *candidate) {
	c.kept = true
	for _, tie := range c.ties {
		s.ties[tie] = true
	}
}

// candidate is a process that may be a helper.
type candidate struct {
	Process
	host.Lineage
	qemu     bool // one that is no guest: libvirt asks it what it can do, or it is a canary
	attached bool // the engine reads its output: it is a command that someone runs in the container
	ties     []string
	kept     bool
}

func of(what string, pid int) string { return fmt.Sprintf("%s %d", what, pid) }

func (s *Sorter) candidates(pids []int, guests []Guest, peers map[uint64]uint64) ([]*candidate, error) {
	if err := s.addShims(pids); err != nil {
		return nil, err
	}
	var found []*candidate
	for _, pid := range pids {
		if pid == s.first || slices.ContainsFunc(guests, func(g Guest) bool { return g.PID == pid }) {
			continue
		}
		c, err := s.candidate(pid, peers)
		if host.Gone(err) {
			continue // the process exited meanwhile
		}
		if err != nil {
			return nil, err
		}
		if c != nil {
			found = append(found, c)
		}
	}
	related := map[int]bool{}
	for _, c := range found {
		related[c.PID] = true
	}
	for _, g := range guests {
		related[g.PID] = true
	}
	for _, c := range found { // not a parent outside of the container, which all daemons have
		if related[c.Parent] {
			c.ties = append(c.ties, of("process", c.Parent))
		}
	}
	return found, nil
}

// candidate returns nil for a process that is no candidate: one of the service, a
// zombie, and a canary.
func (s *Sorter) candidate(pid int, peers map[uint64]uint64) (*candidate, error) {
	h := s.finder.Host
	args, err := h.CommandLine(pid)
	if err != nil || len(args) == 0 || s.isService(args) {
		return nil, err
	}
	c := &candidate{qemu: isQEMU(args)}
	if name, uuid, ok := parseArguments(args); ok && (Guest{Name: name, UUID: uuid}).canary() {
		return nil, nil
	}
	c.PID = pid
	if c.Lineage, err = h.Lineage(pid); err != nil || c.Exited || slices.Contains(s.service, process{pid, c.Start}) {
		return nil, err
	}
	if c.Name, err = h.CommandName(pid); err != nil {
		return nil, err
	}
	pipes, err := h.Pipes(pid, -1)
	if err != nil {
		return nil, err
	}
	c.attached = slices.ContainsFunc(pipes, func(pipe string) bool { return s.log[pipe] })
	if c.ties, err = s.tiesOf(pid, peers); err != nil {
		return nil, err
	}
	c.ties = append(c.ties, of("process", pid))
	if !s.sessions[c.Session] {
		c.ties = append(c.ties, of("session", c.Session))
	}
	return c, nil
}

// isService reports whether a process with these arguments is the service itself.
func (s *Sorter) isService(args []string) bool {
	if slices.ContainsFunc(append(s.copied, s.args), func(own []string) bool { return slices.Equal(own, args) }) {
		return true // a copy that executed no other program
	}
	return slices.ContainsFunc(slices.Concat(s.args[min(1, len(s.args)):], s.command), func(arg string) bool {
		return !strings.ContainsAny(arg, " \t\n") && filepath.Base(arg) == filepath.Base(args[0]) // not the end of a script
	})
}

// isDaemon reports whether a process has left the service. It says so of a process as
// it was when it was first seen: after the service's exit more look like daemons.
func (s *Sorter) isDaemon(c *candidate, pids []int) bool {
	id := process{c.PID, c.Start}
	is, seen := s.daemons[id]
	if !seen {
		is = s.left(c, pids)
		s.daemons[id] = is
	}
	return is
}

// left reports whether a process has a session of its own, and either the first process
// of the session has exited, or it was adopted by a process outside of the container.
// A command that someone runs in the container has such a parent too.
func (s *Sorter) left(c *candidate, pids []int) bool {
	if s.sessions[c.Session] || c.attached || c.Terminal || c.qemu {
		return false
	}
	if c.Parent != s.first && !slices.Contains(pids, c.Parent) {
		return true
	}
	leader, err := s.finder.Host.Lineage(c.Session)
	return host.Gone(err) || err == nil && leader.Exited
}
