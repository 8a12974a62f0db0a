package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// How often each is sent, and how long the last answers may take. An emulated machine with two
// processors can do this and upgrade its services meanwhile.
const (
	steadyEvery = 4 * time.Millisecond
	streamEvery = 50 * time.Millisecond
	probeEvery  = 100 * time.Millisecond
	arpEvery    = 200 * time.Millisecond
	last        = 3 * time.Second
)

// chunk is how much of the TCP stream is sent at once: its number, and what fills a packet.
const chunk = 1000

// Report is what was measured.
type Report struct {
	Steady Line `json:"steady"` // datagrams of an established flow
	Stream Line `json:"stream"` // parts of a TCP stream
	New    Line `json:"new"`    // first packets of flows that the switch does not know
	ARP    Line `json:"arp"`    // requests that the switch answers itself
}

// ports are the sockets of what measures.
type ports struct {
	steady, stream net.Conn
	probes, arp    *wire
	own            netip.Addr
}

// measure sends until it is told to end.
func measure(netns string, peer, gateway netip.Addr, end <-chan os.Signal) (Report, error) {
	var p ports
	if err := inside(netns, func() error { return p.open(peer) }); err != nil {
		return Report{}, fmt.Errorf("open sockets in %s: %w", netns, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var steady, stream, probes, arp series
	go receive(p.steady, 4, &steady)
	go receive(p.stream, chunk, &stream)
	go p.probes.receive(func(frame []byte, now time.Time) {
		if len(frame) >= probeLength {
			probes.answer(binary.BigEndian.Uint32(frame[payloadAt:]), now)
		}
	})
	go p.arp.receive(func(frame []byte, now time.Time) {
		if isReply(frame, gateway) {
			arp.answerLast(now)
		}
	})
	// What cannot be sent counts as lost.
	go repeat(ctx, steadyEvery, func(now time.Time) {
		_, _ = p.steady.Write(binary.BigEndian.AppendUint32(nil, steady.send(now)))
	})
	go repeat(ctx, streamEvery, func(now time.Time) {
		part := make([]byte, chunk)
		binary.BigEndian.PutUint32(part, stream.send(now))
		_, _ = p.stream.Write(part)
	})
	go repeat(ctx, probeEvery, func(now time.Time) {
		_, _ = p.probes.file.Write(probe(probes.send(now), p.probes.mac, p.own, peer))
	})
	go repeat(ctx, arpEvery, func(now time.Time) {
		arp.send(now)
		_, _ = p.arp.file.Write(request(p.arp.mac, p.own, gateway))
	})
	<-end
	cancel()
	time.Sleep(last)
	now := time.Now()
	return Report{Steady: steady.line(now), Stream: stream.line(now), New: probes.line(now), ARP: arp.line(now)}, nil
}

// open opens the sockets, in the namespace of this thread.
func (p *ports) open(peer netip.Addr) (err error) {
	dialer := net.Dialer{Control: enlarge, Timeout: 30 * time.Second}
	if p.steady, err = dialer.Dial("udp4", netip.AddrPortFrom(peer, steadyPort).String()); err != nil {
		return err
	}
	p.own = p.steady.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	if p.stream, err = dialer.Dial("tcp4", netip.AddrPortFrom(peer, streamPort).String()); err != nil {
		return err
	}
	if p.probes, err = openWire(unix.ETH_P_IP, udpPort(sourcePortAt, probePort)); err != nil {
		return err
	}
	p.arp, err = openWire(unix.ETH_P_ARP, nil)
	return err
}

// repeat calls a function at a rate. If the machine was busy, it catches up.
func repeat(ctx context.Context, every time.Duration, send func(now time.Time)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for next := time.Now(); ctx.Err() == nil; <-tick.C {
		for now := time.Now(); next.Before(now); next = next.Add(every) {
			send(now)
		}
	}
}

// receive notes the answers of a connection, which begin with their numbers.
func receive(conn net.Conn, length int, s *series) {
	packet := make([]byte, length)
	for {
		if _, err := io.ReadFull(conn, packet); err != nil {
			return
		}
		s.answer(binary.BigEndian.Uint32(packet), time.Now())
	}
}

func (w *wire) receive(frame func([]byte, time.Time)) {
	b := make([]byte, 2048)
	for {
		length, err := w.file.Read(b)
		if err != nil {
			return
		}
		frame(b[:length], time.Now())
	}
}
