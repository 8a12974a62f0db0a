package main

import (
	"context"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// Ports of the one that answers.
const (
	steadyPort = 7000
	streamPort = 7001
	probePort  = 7002
)

// answer sends back what comes to a port.
func answer(netns string) error {
	failed := make(chan error, 3)
	err := inside(netns, func() error {
		config := net.ListenConfig{Control: enlarge}
		steady, err := config.ListenPacket(context.Background(), "udp4", fmt.Sprintf(":%d", steadyPort))
		if err != nil {
			return err
		}
		stream, err := config.Listen(context.Background(), "tcp4", fmt.Sprintf(":%d", streamPort))
		if err != nil {
			return err
		}
		probes, err := openWire(unix.ETH_P_IP, udpPort(destinationAt, probePort))
		if err != nil {
			return err
		}
		go func() { failed <- answerSteady(steady) }()
		go func() { failed <- answerStream(stream) }()
		go func() { failed <- probes.answer() }()
		return nil
	})
	if err != nil {
		return fmt.Errorf("open sockets in %s: %w", netns, err)
	}
	return <-failed
}

func answerSteady(conn net.PacketConn) error {
	packet := make([]byte, 2048)
	for {
		length, from, err := conn.ReadFrom(packet)
		if err != nil {
			return err
		}
		_, _ = conn.WriteTo(packet[:length], from) // what is lost counts
	}
}

func answerStream(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}()
	}
}

func (w *wire) answer() error {
	frame := make([]byte, 2048)
	for {
		length, err := w.file.Read(frame)
		if err != nil {
			return err
		}
		if length < probeLength {
			continue
		}
		turn(frame[:length], w.mac)
		_, _ = w.file.Write(frame[:length]) // what is lost counts
	}
}
