// Package quiesce brings a node to a point at which nova-compute and libvirt can
// be replaced: no new server is placed on it, and no operation is under way.
package quiesce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Operation is one operation that is under way, as users read it:
// `server "web" (5f3c…)` and "is spawning, for 2m".
type Operation struct {
	Subject, Task string
}

func (o Operation) String() string { return o.Subject + " " + o.Task }

// Source knows of operations.
type Source func(context.Context) ([]Operation, error)

// Busy means that operations are still under way.
type Busy struct {
	Operations []Operation
	Waited     time.Duration
}

func (b *Busy) Error() string {
	text := listed(b.Operations)
	if b.Waited > 0 {
		text += fmt.Sprintf("; waited %v", b.Waited)
	}
	return text
}

const (
	interval       = 2 * time.Second  // between two questions
	noticeInterval = 30 * time.Second // between two lines that say the same
	askLimit       = 30 * time.Second // for a source that does not answer
)

// Waiting is how to wait.
type Waiting struct {
	Limit time.Duration    // 0: ask once
	Now   func() time.Time // the node's clock
	Pause func(context.Context, time.Duration) error
	Note  func(text string) // tells users what is waited for
}

// Wait asks the sources until none knows of an operation. The error is a *Busy if
// some are under way when the limit is over. An error of a source is returned when
// it has not answered for a while: an operation that nobody can see may be lost.
func (w Waiting) Wait(ctx context.Context, sources ...Source) error {
	begun := w.Now()
	answered := begun
	told, notice := "", begun
	for {
		found, err := ask(ctx, sources)
		now := w.Now()
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err == nil && len(found) == 0:
			return nil
		case err == nil:
			answered = now
		case now.Sub(answered) >= min(askLimit, w.Limit):
			return err
		}
		if err == nil && now.Sub(begun) >= w.Limit {
			return &Busy{Operations: found, Waited: now.Sub(begun).Round(time.Second)}
		}
		if text := waitingFor(found, err); subjects(text) != subjects(told) || now.Sub(notice) >= noticeInterval {
			w.Note(fmt.Sprintf("%s, %v more at most", text, (w.Limit - now.Sub(begun)).Round(time.Second)))
			told, notice = text, now
		}
		if err := w.Pause(ctx, min(interval, w.Limit)); err != nil {
			return err
		}
	}
}

func ask(ctx context.Context, sources []Source) ([]Operation, error) {
	var all []Operation
	var errs []error
	for _, source := range sources {
		found, err := source(ctx)
		errs = append(errs, err)
		for _, o := range found {
			if !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	return all, errors.Join(errs...)
}

func waitingFor(found []Operation, err error) string {
	if err != nil {
		return fmt.Sprintf("waiting for an answer: %v", err)
	}
	return "waiting for " + listed(found)
}

// subjects is a text without its times: a new second is no news.
func subjects(text string) string {
	words := strings.Fields(text)
	return strings.Join(slices.DeleteFunc(words, func(word string) bool {
		_, err := time.ParseDuration(strings.Trim(word, ",;"))
		return err == nil
	}), " ")
}

// shown is how many operations a line names.
const shown = 5

func listed(all []Operation) string {
	text := fmt.Sprintf("%d operations: ", len(all))
	if len(all) == 1 {
		text = "1 operation: "
	}
	for i, o := range all {
		if i == shown {
			return text + fmt.Sprintf("; and %d more", len(all)-shown)
		}
		if i > 0 {
			text += "; "
		}
		text += o.String()
	}
	return text
}

// Pause waits for a time, or until the context is done.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
