package main

import (
	"slices"
	"sync"
	"time"
)

// series is what was sent at a steady rate, by number, and when each was answered.
type series struct {
	mu       sync.Mutex
	sent     []time.Time
	answered []time.Time // zero: not yet
}

// send notes that the next one is sent, and returns its number.
func (s *series) send(now time.Time) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.answered = append(s.sent, now), append(s.answered, time.Time{})
	return uint32(len(s.sent) - 1)
}

// answer notes that one was answered.
func (s *series) answer(n uint32, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(n) < len(s.sent) && s.answered[n].IsZero() {
		s.answered[n] = now
	}
}

// answerLast notes that the last one was answered: of those whose answers have no number.
func (s *series) answerLast(now time.Time) { s.answer(uint32(len(s.all())-1), now) }

func (s *series) all() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Line is what came of a series.
type Line struct {
	Sent int `json:"sent"`
	Lost int `json:"lost"`
	// The longest time until one that is sent again and again is answered: the next of the
	// series takes the place of what was lost.
	Worst float64 `json:"worst_ms"`
}

// line evaluates a series that ended at a time.
func (s *series) line(end time.Time) Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, first := Line{Sent: len(s.sent)}, end
	for i, at := range slices.Backward(s.answered) {
		switch {
		case at.IsZero():
			l.Lost++
		case at.Before(first):
			first = at
		}
		l.Worst = max(l.Worst, float64(first.Sub(s.sent[i]).Microseconds())/1000)
	}
	return l
}
