package view

import (
	"time"

	"github.com/kollet/kollet/agent/node"
)

// queue shows progress in a separate goroutine, so that a blocked terminal, such as
// that of an SSH session without network, does not delay an upgrade between the
// stop and the start of a service.
type queue struct {
	todo  chan func()
	ended chan struct{}
	next  progress
}

const (
	queueLength  = 1024        // further events are dropped
	closeTimeout = time.Second // for a blocked terminal, on close
)

func newQueue(next progress) *queue {
	q := &queue{todo: make(chan func(), queueLength), ended: make(chan struct{}), next: next}
	go func() {
		defer close(q.ended)
		for f := range q.todo {
			f()
		}
		next.close()
	}()
	return q
}

func (q *queue) add(f func()) {
	select {
	case q.todo <- f:
	default:
	}
}

func (q *queue) event(e node.Event) { q.add(func() { q.next.event(e) }) }
func (q *queue) say(line string)    { q.add(func() { q.next.say(line) }) }

func (q *queue) close() {
	close(q.todo)
	select {
	case <-q.ended:
	case <-time.After(closeTimeout):
	}
}
