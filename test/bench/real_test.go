package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/journal"
)

// BenchmarkReal measures how long libvirtd does not answer, and nova-compute is
// without its message bus, in the ways that follow in turn. Before each the
// service's programs and libraries are dropped from the page cache, as far as
// nothing uses them: those of an image that was just pulled are not there
// either.
func BenchmarkReal(b *testing.B) { onBothComputes(b, realOn) }

// Ways of replacing a real service.
const (
	warmedUp   = "gated, warmed up" // nova-compute: preloaded
	notLoaded  = "gated, warmed up, not preloaded"
	notWarmed  = "gated, not warmed up"
	inSequence = "stop, remove, create, start"
	restarted  = "restarted, nothing replaced"
)

func realOn(b *testing.B, c *compute) {
	services := []struct {
		name    string
		replace func(do func()) time.Duration
	}{
		{"nova-libvirt", c.libvirtGap},
		{"nova-compute", c.novaGap},
	}
	ways := []string{warmedUp, notLoaded, notWarmed, inSequence, restarted}
	all, order := series{}, []string{}
	for _, s := range services {
		for _, way := range ways {
			order = append(order, "Real/service="+s.name+"/way="+way)
		}
	}
	before := load()
	for b.Loop() {
		for _, s := range services {
			for _, way := range ways {
				c.dropCache(s.name)
				awaitQuiet(b)
				gap := s.replace(func() { c.replace(s.name, way) })
				key := "Real/service=" + s.name + "/way=" + way
				all[key] = append(all[key], ms(gap))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	var t strings.Builder
	fmt.Fprintf(&t, "| service | way | times gated and warmed up | median ms | min ms | max ms |\n|---|---|---|---|---|---|\n")
	for _, s := range services {
		base := spreadOf(all["Real/service="+s.name+"/way="+warmedUp]).Median
		for _, way := range ways {
			g := spreadOf(all["Real/service="+s.name+"/way="+way])
			fmt.Fprintf(&t, "| %s | %s | %.1f | %.0f | %.0f | %.0f |\n", s.name, way, g.Median/base, g.Median, g.Min, g.Max)
		}
	}
	fmt.Fprintf(&t, "\n%s; load %.1f before, %.1f after; %d rounds.\n", c.version(), before, load(), len(all[order[0]]))
	keep(b, "real-"+c.on.name+".md", []byte(t.String()))
	keepSeries(b, "real-"+c.on.name+".txt", here(c.version()), order, all)
	b.Logf("\n%s", t.String())
}

// replace puts another version of a service in its place.
func (c *compute) replace(service, way string) {
	c.b.Helper()
	switch way {
	case inSequence:
		c.replaceByHand(service)
		return
	case restarted:
		c.stopAndStart(service)
		return
	}
	if c.images[service] == newVersion {
		c.images[service] = oldVersion
	} else {
		c.images[service] = newVersion
	}
	c.extra[service] = ""
	switch {
	case service == "nova-compute" && way == notLoaded:
		c.extra[service] = "    preload: {python: false, modules: []}\n    warmup: [nova-compute, --version]\n"
	case service == "nova-compute" && way == notWarmed:
		c.extra[service] = "    preload: {python: false, modules: []}\n"
	case way == notWarmed:
		c.extra[service] = "    warmup: []\n"
	}
	c.configure()
	c.change(string(journal.Committed), "upgrade")
}

// stopAndStart restarts a service as it is: what no way of replacing it is below.
func (c *compute) stopAndStart(service string) {
	c.b.Helper()
	id := c.container(service).ID
	check(c.b, c.engine.Stop(context.Background(), id, time.Minute))
	check(c.b, c.engine.Start(context.Background(), id))
}

// dropCache drops the files of a service's image from the page cache. The images
// differ by a label alone: what one has, the others have.
func (c *compute) dropCache(service string) {
	c.b.Helper()
	usr := fmt.Sprintf("/proc/%d/root/usr", c.container(service).PID)
	check(c.b, filepath.WalkDir(usr, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}))
}

// libvirtGap is how long libvirtd does not answer while it is replaced.
func (c *compute) libvirtGap(do func()) time.Duration {
	h := listenTo(c.b, "libvirtd", askLibvirt)
	do()
	return h.gap(c.b)
}

// libvirtSocket is that of the node: /run is the containers' too.
const libvirtSocket = "/run/libvirt/libvirt-sock"

// askLibvirt asks libvirtd which ways of authentication it has, the first thing
// that every client asks (libvirt: src/remote/remote_protocol.x,
// REMOTE_PROC_AUTH_LIST), and returns the process id of who answers; 0 if nobody
// does.
func askLibvirt() int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	second := unix.Timeval{Sec: 1}
	if unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &second) != nil ||
		unix.Connect(fd, &unix.SockaddrUnix{Name: libvirtSocket}) != nil {
		return 0
	}
	var question []byte
	for _, word := range []uint32{28, 0x20008086, 1, 66, 0, 0, 0} { // length, program, version, procedure, call, serial, ok
		question = binary.BigEndian.AppendUint32(question, word)
	}
	var answer [64]byte
	if _, err := unix.Write(fd, question); err != nil {
		return 0
	}
	n, err := unix.Read(fd, answer[:])
	if err != nil || n < 28 || !bytes.Equal(answer[4:16], question[4:16]) {
		return 0
	}
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(who.Pid)
}

// novaGap is how long nova-compute has no connection to the message bus: from
// the first that the old process closes to the first that the new one has
// opened, by the broker's own log.
func (c *compute) novaGap(do func()) time.Duration {
	c.b.Helper()
	old := c.container("nova-compute").PID
	from := time.Now()
	do()
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		log, err := os.ReadFile(c.rabbit.Log())
		check(c.b, err)
		if gap, ok := busGap(string(log), from, old); ok {
			return gap
		}
	}
	c.b.Fatalf("nova-compute (it was process %d) did not come back to the message bus", old)
	return 0
}

// busLine is one about a connection of nova-compute's, which names its process.
var busLine = regexp.MustCompile(`^(\S+ \S+) \[\w+\].* - nova-compute:(\d+):(.*)$`)

// colours are RabbitMQ's for what matters.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// granted is what RabbitMQ says of a login.
const granted = "authenticated and granted access"

// parseBusLine returns the time, the process and the text of a line about a connection
// of nova-compute's.
func parseBusLine(line string) (at time.Time, pid, text string, ok bool) {
	m := busLine.FindStringSubmatch(colours.ReplaceAllString(strings.TrimSpace(line), ""))
	if m == nil {
		return time.Time{}, "", "", false
	}
	at, err := time.Parse("2006-01-02 15:04:05.999999-07:00", m[1])
	return at, m[2], m[3], err == nil
}

// busGap reads RabbitMQ's log from a moment on. Old is the process id of the
// nova-compute that goes.
func busGap(log string, from time.Time, old int) (time.Duration, bool) {
	var closed time.Time
	for line := range strings.Lines(log) {
		at, pid, text, ok := parseBusLine(line)
		if !ok || at.Before(from) {
			continue
		}
		opened := strings.Contains(text, granted)
		switch {
		case pid == fmt.Sprint(old) && !opened && closed.IsZero():
			closed = at
		case pid != fmt.Sprint(old) && opened && !closed.IsZero():
			return at.Sub(closed), true
		}
	}
	return 0, false
}

func TestBusGap(t *testing.T) {
	from := time.Date(2026, 11, 21, 12, 15, 40, 0, time.UTC)
	line := func(at, pid, text string) string {
		return "\x1b[38;5;214m2026-11-21 12:" + at + "+00:00 [warning] <0.1.0> connection <0.1.0> (127.0.0.1:3 -> 127.0.0.1:5672 - nova-compute:" + pid + ":c9b7)" + text + "\x1b[0m\n"
	}
	const login = ": user 'openstack' " + granted + " to vhost '/'"
	log := line("15:30.100000", "374", ", vhost: '/'") + line("15:50.250000", "374", ", vhost: '/'") + line("15:50.260000", "374", ", vhost: '/'") +
		line("15:55.000000", "374", login) + line("15:55.100000", "5598", "") + line("15:56.500000", "5598", login)
	// A line about a new connection without the word is no opening, and a closing
	// of the new one's is none of the old one's.
	if gap, ok := busGap(log, from, 374); !ok || gap != 6250*time.Millisecond {
		t.Errorf("%v, %v", gap, ok)
	}
	if at, ok := firstLogin(log, from, 374); !ok || at.Sub(from) != 16500*time.Millisecond {
		t.Errorf("first login at %v, %v", at, ok)
	}
	if gap, ok := busGap(log, from, 99); ok {
		t.Errorf("without the old one's closing: %v", gap)
	}
}
