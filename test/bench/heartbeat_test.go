package bench

import (
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// beat is how long the heartbeat pauses between two questions.
const beat = 300 * time.Microsecond

// heartbeat asks a tiny service without a pause worth the name, as a user does
// who needs it all the time.
type heartbeat struct {
	address string
	quit    chan struct{}
	done    chan struct{}
	fresh   chan int // process ids that answered, each once

	answers []answer // to be read when done is closed
}

// answer is one that came in full: when, and from which process.
type answer struct {
	at  time.Time
	pid int
}

// listen starts a heartbeat and returns once the service has answered.
func listen(b *testing.B, address string) *heartbeat {
	b.Helper()
	h := &heartbeat{address: address, quit: make(chan struct{}), done: make(chan struct{}), fresh: make(chan int, 16)}
	go h.run()
	h.await(b)
	return h
}

func (h *heartbeat) run() {
	defer close(h.done)
	last := 0
	for {
		if pid := ask(h.address); pid != 0 {
			h.answers = append(h.answers, answer{time.Now(), pid})
			if pid != last {
				h.fresh <- pid
				last = pid
			}
		}
		select {
		case <-h.quit:
			return
		case <-time.After(beat):
		}
	}
}

// ask returns the process id that a tiny service answers with; 0 for none.
func ask(address string) int {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return 0
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(time.Second)) != nil {
		return 0
	}
	data, err := io.ReadAll(conn)
	pid := 0
	if err != nil || len(data) == 0 {
		return 0
	}
	if _, err := fmt.Sscan(string(data), &pid); err != nil {
		return 0
	}
	return pid
}

// await waits until a process answers that has not answered before.
func (h *heartbeat) await(b *testing.B) {
	b.Helper()
	select {
	case <-h.fresh:
	case <-time.After(time.Minute):
		b.Fatalf("nobody new answers at %s", h.address)
	}
}

// gap ends the heartbeat, once the new process has answered, and returns how
// long the service was away.
func (h *heartbeat) gap(b *testing.B) time.Duration {
	b.Helper()
	h.await(b)
	close(h.quit)
	<-h.done
	gap, err := gapOf(h.answers)
	if err != nil {
		b.Fatalf("%s: %v", h.address, err)
	}
	return gap
}

// gapOf is the time from the last answer of the old process to the first of the
// new one.
func gapOf(answers []answer) (time.Duration, error) {
	same := func(a answer) bool { return a.pid == answers[0].pid }
	first := slices.IndexFunc(answers, func(a answer) bool { return !same(a) })
	if first < 0 {
		return 0, fmt.Errorf("the service was not replaced: only process %d answered", answers[0].pid)
	}
	for _, a := range answers[first:] {
		if a.pid != answers[first].pid {
			return 0, fmt.Errorf("processes %d, %d and %d answered, want an old one and a new one", answers[0].pid, answers[first].pid, a.pid)
		}
	}
	return answers[first].at.Sub(answers[first-1].at), nil
}

func TestGapOf(t *testing.T) {
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
			got, err := gapOf(c.answers)
			if got != c.want || (err == nil) != (c.want != 0) {
				t.Fatalf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}
