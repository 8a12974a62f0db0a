package view

import (
	"time"

	"github.com/kollet/kollet/agent/node"
)

// queue shows progress from a goroutine of its own, so that a terminal which
// takes no output, such as that of an SSH session whose network is gone, does
// not hold up an upgrade between a service's stop and its start.
type queue struct {
	todo  chan func()
	ended chan struct{}
	next  progress
}

const (
	queueLength  = 1024        // what does not fit is dropped
	closeTimeout = time.Second // with a terminal that takes no output, at the end
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
