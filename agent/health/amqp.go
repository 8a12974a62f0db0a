package health

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
)

// protocolHeader is how a client begins a connection of AMQP 0-9-1 (specification,
// section 4.2.2).
const protocolHeader = "AMQP\x00\x00\x09\x01"

// start is the beginning of the broker's first frame, without its size: a method (type
// 1) on channel 0, of the class connection (10), and its method start (10).
var start = [...]byte{0: 1, 8: 10, 10: 10}

// greet opens a connection to a message broker, and requires its answer to a
// client's first bytes. A bare connection proves nothing: the kernel accepts
// connections also for a process that is stopped.
func greet(ctx context.Context, t Target, p nodefile.Probe) error {
	broker, err := nodefile.ParseBroker(p.AMQP)
	if err != nil {
		return err
	}
	tcp, err := new(net.Dialer).DialContext(ctx, "tcp", broker.Addr)
	if err != nil {
		return err
	}
	defer tcp.Close()
	defer context.AfterFunc(ctx, func() { _ = tcp.SetDeadline(time.Unix(1, 0)) })()
	conn := tcp
	if broker.TLS {
		config, err := brokerTLS(t, p.CAFile, broker.Host)
		if err != nil {
			return err
		}
		over := tls.Client(tcp, config)
		if err := over.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("TLS handshake: %w", unanswered(ctx, err))
		}
		conn = over
	}
	if _, err := io.WriteString(conn, protocolHeader); err != nil {
		return unanswered(ctx, err)
	}
	answer := make([]byte, len(start))
	n, err := io.ReadFull(conn, answer)
	if n == 0 || ctx.Err() != nil {
		return unanswered(ctx, err)
	}
	return checkStart(answer[:n])
}

// brokerTLS verifies the broker's certificate only with a file of authorities, like
// oslo.messaging, which needs ssl_ca_file for it.
func brokerTLS(t Target, file, host string) (*tls.Config, error) {
	if file == "" {
		return &tls.Config{InsecureSkipVerify: true}, nil //nolint:gosec // nothing is sent that must stay secret
	}
	pool := x509.NewCertPool()
	return &tls.Config{RootCAs: pool, ServerName: host}, t.addAuthorities(pool, file)
}

// unanswered explains the error of a connection that was accepted.
func unanswered(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
		return errors.New("it accepts connections, but does not answer")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it closed the connection without an answer")
	}
	return err
}

// checkStart checks the beginning of a broker's answer. A broker that speaks another
// version of AMQP answers with the header of that version.
func checkStart(answer []byte) error {
	if bytes.HasPrefix(answer, []byte("AMQP")) {
		return errors.New("it speaks another version of AMQP than 0-9-1")
	}
	var frame [len(start)]byte
	copy(frame[:], answer)
	frame[3], frame[4], frame[5], frame[6] = 0, 0, 0, 0 // size
	if frame != start {
		return fmt.Errorf("it does not speak AMQP: it answered %q", answer)
	}
	return nil
}
