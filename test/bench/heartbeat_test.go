package bench

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// beat is how long the heartbeat pauses between two questions.
const beat = 300 * time.Microsecond

// heartbeat asks a service without a pause worth the name, as a user does
// who needs it all the time.
type heartbeat struct {
	address string
	quit    chan struct{}
	done    chan struct{}
	fresh   chan int // process ids that answered, each once

	ask     func() int // the process id of who answers; 0 if nobody does
	answers []answer   // to be read when done is closed, as failed
	failed  error
}

// answer is one that came in full: when, and from which process.
type answer struct {
	at  time.Time
	pid int
}

// listen starts a heartbeat of a tiny service and returns once it has answered.
func listen(b *testing.B, address string) *heartbeat {
	b.Helper()
	at := netip.MustParseAddrPort(address)
	to := unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	return listenTo(b, address, func() int { return ask(to) })
}

// listenTo starts a heartbeat of any service and returns once it has answered.
func listenTo(b *testing.B, name string, ask func() int) *heartbeat {
	b.Helper()
	h := &heartbeat{address: name, ask: ask, quit: make(chan struct{}), done: make(chan struct{}), fresh: make(chan int, 16)}
	go h.run()
	h.await(b)
	return h
}

// run has a thread of its own that goes before all others, and no part of Go's
// runtime between it and its socket: on a busy machine it would measure its own
// waits instead.
func (h *heartbeat) run() {
	defer close(h.done)
	runtime.LockOSThread() // never unlocked: the thread exits with the goroutine
	h.failed = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20)
	pause := unix.NsecToTimespec(beat.Nanoseconds())
	last := 0
	for h.failed == nil {
		if pid := h.ask(); pid != 0 {
			h.answers = append(h.answers, answer{time.Now(), pid})
			if pid != last {
				h.fresh <- pid
				last = pid
			}
		}
		select {
		case <-h.quit:
			return
		default:
			_ = unix.Nanosleep(&pause, nil)
		}
	}
}

// ask returns the process id that a tiny service answers with; 0 for none.
func ask(to unix.SockaddrInet4) int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	// After the answer, the connection is reset. If thousands of connections were
	// closed normally they would stay in TIME_WAIT on the service's side, and a
	// client that reuses such a port while the service is away waits for a
	// retransmission, two of the kernel's ticks (tcp_rcv_synsent_state_process).
	second, reset := unix.Timeval{Sec: 1}, unix.Linger{Onoff: 1}
	if unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &second) != nil ||
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &reset) != nil || unix.Connect(fd, &to) != nil {
		return 0
	}
	var line [64]byte
	n, err := unix.Read(fd, line[:]) // it is written at once, so it is read at once
	if err != nil || !bytes.HasSuffix(line[:n], []byte("\n")) {
		return 0
	}
	pid := 0
	_, _ = fmt.Sscan(string(line[:n]), &pid)
	return pid
}

// await waits until a process answers that has not answered before.
func (h *heartbeat) await(b *testing.B) {
	b.Helper()
	select {
	case <-h.fresh:
	case <-h.done:
		b.Fatalf("heartbeat: %v", h.failed)
	case <-time.After(time.Minute):
		b.Fatalf("nobody new answers at %s", h.address)
	}
}

// replaced ends the heartbeat, once the new process has answered, and returns
// the old one's last answer and the new one's first.
func (h *heartbeat) replaced(b *testing.B) (last, first answer) {
	b.Helper()
	h.await(b)
	close(h.quit)
	<-h.done
	last, first, err := replacement(h.answers)
	if err != nil {
		b.Fatalf("%s: %v", h.address, err)
	}
	return last, first
}

// gap is how long the service was away: replaced's two answers apart.
func (h *heartbeat) gap(b *testing.B) time.Duration {
	b.Helper()
	last, first := h.replaced(b)
	return first.at.Sub(last.at)
}

// replacement finds the last answer of the old process and the first of the new
// one.
func replacement(answers []answer) (last, first answer, err error) {
	same := func(a answer) bool { return a.pid == answers[0].pid }
	at := slices.IndexFunc(answers, func(a answer) bool { return !same(a) })
	if at < 0 {
		return last, first, fmt.Errorf("the service was not replaced: only process %d answered", answers[0].pid)
	}
	for _, a := range answers[at:] {
		if a.pid != answers[at].pid {
			return last, first, fmt.Errorf("processes %d, %d and %d answered, want an old one and a new one", answers[0].pid, answers[at].pid, a.pid)
		}
	}
	return answers[at-1], answers[at], nil
}

func TestReplacement(t *testing.T) {
	at := func(ms, pid int) answer { return answer{time.UnixMilli(int64(ms)), pid} }
	for name, c := range map[string]struct {
		answers []answer
		want    time.Duration // 0: an error
	}{
		"from the last old answer to the first new one": {[]answer{at(0, 7), at(2, 7), at(11, 8), at(30, 8)}, 9 * time.Millisecond},
		"never replaced":         {[]answer{at(0, 7), at(900, 7)}, 0},
		"replaced twice":         {[]answer{at(0, 7), at(1, 8), at(2, 9)}, 0},
		"two that take turns":    {[]answer{at(0, 7), at(1, 8), at(2, 7)}, 0},
		"one answer of each one": {[]answer{at(5, 7), at(6, 8)}, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			last, first, err := replacement(c.answers)
			if got := first.at.Sub(last.at); got != c.want || (err == nil) != (c.want != 0) {
				t.Fatalf("got %v and %v, %v, want them %v apart", last, first, err, c.want)
			}
		})
	}
}
