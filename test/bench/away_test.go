package bench

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// watch asks a question repeatedly, and keeps when its answer changed.
type watch struct {
	stop    atomic.Bool
	stopped chan error
	changes []change // the first is the first answer
}

type change struct {
	at time.Time
	ok bool
}

// backAgain is how long a watch waits at its end for what it watches.
const backAgain = 2 * time.Minute

func watchEvery(interval time.Duration, ask func() (bool, error)) *watch {
	w := &watch{stopped: make(chan error, 1)}
	go func() { w.stopped <- w.run(interval, ask) }()
	return w
}

// run asks until it is told to stop, and then until the answer is yes.
func (w *watch) run(interval time.Duration, ask func() (bool, error)) error {
	var deadline time.Time
	for tick := time.Tick(interval); ; <-tick {
		stop := w.stop.Load()
		ok, err := ask()
		if err != nil {
			return err
		}
		if len(w.changes) == 0 || w.changes[len(w.changes)-1].ok != ok {
			w.changes = append(w.changes, change{time.Now(), ok})
		}
		switch {
		case stop && ok:
			return nil
		case stop && deadline.IsZero():
			deadline = time.Now().Add(backAgain)
		case stop && time.Now().After(deadline):
			return fmt.Errorf("still away after %v", backAgain)
		}
	}
}

// end waits until the answer is yes, and returns how long it was no.
func (w *watch) end(b *testing.B) time.Duration {
	b.Helper()
	w.stop.Store(true)
	check(b, <-w.stopped)
	away, ok := awayIn(w.changes)
	if !ok {
		b.Fatalf("it was away at the beginning: %v", w.changes)
	}
	return away
}

// awayIn adds up the times between no and yes. It fails if the first or the last answer
// is no.
func awayIn(changes []change) (away time.Duration, ok bool) {
	if len(changes) == 0 || !changes[0].ok || !changes[len(changes)-1].ok {
		return 0, false
	}
	for i, c := range changes[1:] {
		if c.ok {
			away += c.at.Sub(changes[i].at)
		}
	}
	return away, true
}

func TestAwayIn(t *testing.T) {
	at := func(second int, ok bool) change { return change{time.Unix(int64(second), 0), ok} }
	for _, c := range []struct {
		name    string
		changes []change
		want    time.Duration
		ok      bool
	}{
		{"never asked", nil, 0, false},
		{"always there", []change{at(1, true)}, 0, true},
		{"away once", []change{at(1, true), at(5, false), at(8, true)}, 3 * time.Second, true},
		{"away twice", []change{at(1, true), at(5, false), at(8, true), at(10, false), at(11, true)}, 4 * time.Second, true},
		{"not back", []change{at(1, true), at(5, false)}, 0, false},
		{"not there", []change{at(5, false), at(8, true)}, 0, false},
	} {
		if got, ok := awayIn(c.changes); got != c.want || ok != c.ok {
			t.Errorf("%s: got %v, %v, want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// consumed returns a question to the broker: does anyone take requests from a queue?
func consumed(b *testing.B, url, queue string) func() (bool, error) {
	b.Helper()
	connection, err := amqp.Dial(url)
	check(b, err)
	b.Cleanup(func() { connection.Close() })
	channel, err := connection.Channel()
	check(b, err)
	return func() (bool, error) {
		q, err := channel.QueueDeclarePassive(queue, false, false, false, false, nil)
		return q.Consumers > 0, err
	}
}
