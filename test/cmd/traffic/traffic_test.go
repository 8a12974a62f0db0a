package main

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	began := time.Unix(1000, 0)
	const none = -1
	for name, c := range map[string]struct {
		answered []int // milliseconds after the beginning, of what is sent every 10 ms
		want     Line
	}{
		"nothing was sent":            {nil, Line{}},
		"all are answered":            {[]int{1, 15, 21}, Line{Sent: 3, Worst: 5}},
		"some are lost":               {[]int{1, none, none, 32}, Line{Sent: 4, Lost: 2, Worst: 22}},
		"the last ones are lost":      {[]int{1, none, none}, Line{Sent: 3, Lost: 2, Worst: 90}},
		"all are lost":                {[]int{none, none}, Line{Sent: 2, Lost: 2, Worst: 100}},
		"one is late":                 {[]int{95, 11, 21}, Line{Sent: 3, Worst: 11}},
		"a pause in which all waited": {[]int{50, 50, 50, 50}, Line{Sent: 4, Worst: 50}},
	} {
		t.Run(name, func(t *testing.T) {
			var s series
			for i := range c.answered {
				if n := s.send(began.Add(time.Duration(i) * 10 * time.Millisecond)); int(n) != i {
					t.Fatalf("number %d, want %d", n, i)
				}
			}
			for i, after := range c.answered {
				if after != none {
					s.answer(uint32(i), began.Add(time.Duration(after)*time.Millisecond))
				}
			}
			if got := s.line(began.Add(100 * time.Millisecond)); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAnswerLast(t *testing.T) {
	var s series
	s.answerLast(time.Unix(1, 0)) // nothing was sent
	s.answer(7, time.Unix(1, 0))
	s.send(time.Unix(1, 0))
	s.send(time.Unix(2, 0))
	s.answerLast(time.Unix(3, 0))
	s.answerLast(time.Unix(4, 0)) // a second answer is ignored
	if got, want := s.line(time.Unix(9, 0)), (Line{Sent: 2, Lost: 1, Worst: 2000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFrames(t *testing.T) {
	own, other := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	from, to := netip.MustParseAddr("10.9.0.11"), netip.MustParseAddr("10.9.0.12")
	sent := probe(70001, own, from, to)
	if got, want := net.HardwareAddr(sent[:6]).String(), "02:aa:00:01:11:71"; got != want {
		t.Errorf("the probe is for %s, want %s", got, want)
	}
	back := slices.Clone(sent)
	turn(back, other)
	if !slices.Equal(back[:6], own) || !slices.Equal(back[6:12], other) {
		t.Errorf("addresses of the answer: % x", back[:12])
	}
	for name, frame := range map[string][]byte{"probe": sent, "answer": back} {
		if sum := checksum(frame[ipAt:udpAt]); sum != 0 {
			t.Errorf("the checksum of the %s is wrong: its sum is %#x", name, sum)
		}
	}
	if port := binary.BigEndian.Uint16(back[sourcePortAt:]); port != probePort {
		t.Errorf("the answer comes from port %d", port)
	}
	if number := binary.BigEndian.Uint32(back[payloadAt:]); number != 70001 {
		t.Errorf("the answer is to probe %d", number)
	}
	asked := request(own, from, to)
	if isReply(asked, to) || isReply(asked, from) {
		t.Error("a request is taken for a reply")
	}
	asked[21] = 2
	if !isReply(asked, from) || isReply(asked, to) || isReply(asked[:41], from) {
		t.Error("replies are not recognised by their sender")
	}
}
