package machine_test

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

// amqp opens a connection until RabbitMQ lists it with its user: AMQP 0-9-1, section 2.2.4.
// Data from the server is discarded.
func amqp(t *testing.T, addr, user, password string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	short := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	long := func(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }
	frame := func(class, method uint16, arguments ...[]byte) {
		body := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, class), method)
		body = append(body, slices.Concat(arguments...)...)
		if _, err := conn.Write(append(append([]byte{1, 0, 0}, long(string(body))...), 0xce)); err != nil {
			t.Fatal(err)
		}
	}
	answer := func() {
		t.Helper()
		header := make([]byte, 7)
		if _, err := io.ReadFull(conn, header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(header[3:]))+1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(conn, "AMQP\x00\x00\x09\x01"); err != nil {
		t.Fatal(err)
	}
	answer() // start
	properties := slices.Concat(short("product"), []byte("S"), long("Probe"), short("connection_name"), []byte("S"), long("nova-compute:1:a"))
	frame(10, 11, long(string(properties)), short("PLAIN"), long("\x00"+user+"\x00"+password), short("en_US")) // start-ok
	answer()                                                                                                   // tune
	frame(10, 31, []byte{0, 1, 0, 2, 0, 0, 0, 0})                                                              // tune-ok: one channel, frames up to 2^17, no heartbeat
	frame(10, 40, short("/"), short(""), []byte{0})                                                            // open
	answer()                                                                                                   // open-ok
	return conn
}

func TestRabbit(t *testing.T) {
	r := machine.NewRabbit(t, "secret")
	if all := r.Connections(t); len(all) != 0 {
		t.Errorf("unexpected connections: %v", all)
	}
	conn := amqp(t, r.Addr, r.User, r.Password)
	want := machine.Connection{User: "openstack", Name: "nova-compute:1:a", Product: "Probe", Peer: conn.LocalAddr().String(), State: "running"}
	if all := r.Connections(t); len(all) != 1 || all[0] != want {
		t.Errorf("connections %+v, want %+v", all, want)
	}
	r.Stop()
	if conn, err := net.Dial("tcp", r.Addr); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
	r.Start()
	amqp(t, r.Addr, r.User, r.Password)
}
