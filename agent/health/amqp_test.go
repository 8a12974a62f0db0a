package health

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/nodefile"
)

// greeting is how RabbitMQ begins: connection.start, version 0-9 of AMQP.
const greeting = "\x01\x00\x00\x00\x00\x01\xdc\x00\x0a\x00\x0a\x00\x09"

// server accepts connections and calls serve for each, until the test ends.
func server(t *testing.T, wrap func(net.Conn) net.Conn, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				conn := wrap(conn)
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

func plain(c net.Conn) net.Conn { return c }

// answers reads a client's header and answers it.
func answers(text string) func(net.Conn) {
	return func(c net.Conn) {
		header := make([]byte, len(protocolHeader))
		if _, err := io.ReadFull(c, header); err == nil && string(header) == protocolHeader {
			_, _ = io.WriteString(c, text)
		}
	}
}

// never reads what it is sent and does not answer.
func never(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// frozen listens and never accepts, as a process that is stopped.
func frozen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func tryFor(t *testing.T, target Target, p nodefile.Probe, timeout time.Duration) error {
	t.Helper()
	p.Timeout = timeout
	return Try(t.Context(), target, []nodefile.Probe{p})
}

func wantError(t *testing.T, name string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if (err == nil) != (want == "") || !strings.Contains(got, want) {
		t.Errorf("%s: got %q, want %q", name, got, want)
	}
}

func TestAMQP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	short, long := time.Second, time.Minute
	for name, c := range map[string]struct {
		address string
		timeout time.Duration
		want    string
	}{
		"a broker": {server(t, plain, answers(greeting)), long, ""},
		"in pieces": {server(t, plain, func(c net.Conn) {
			answers(greeting[:3])(c)
			time.Sleep(20 * time.Millisecond)
			_, _ = io.WriteString(c, greeting[3:])
		}), long, ""},
		"nobody listens":     {closed, long, "connection refused"},
		"frozen":             {frozen(t), short, "it accepts connections, but does not answer"},
		"silent":             {server(t, plain, never), short, "it accepts connections, but does not answer"},
		"stops midway":       {server(t, plain, func(c net.Conn) { answers(greeting[:5])(c); never(c) }), short, "it accepts connections, but does not answer"},
		"closes at once":     {server(t, plain, func(net.Conn) {}), long, "probe amqp://"}, // end of file, or a reset
		"another version":    {server(t, plain, answers("AMQP\x00\x01\x00\x00")), long, "it speaks another version of AMQP than 0-9-1"},
		"a web server":       {server(t, plain, answers("HTTP/1.1 400 Bad Request\r\n")), long, `it does not speak AMQP: it answered "HTTP/1.1 40"`},
		"a short answer":     {server(t, plain, answers("hello")), long, `it does not speak AMQP: it answered "hello"`},
		"connection.close":   {server(t, plain, answers("\x01\x00\x00\x00\x00\x00\x0f\x00\x0a\x00\x32")), long, "it does not speak AMQP"},
		"a broker with TLS":  {server(t, func(c net.Conn) net.Conn { return tls.Server(c, &tls.Config{}) }, never), long, "it closed the connection without an answer"},
		"on another channel": {server(t, plain, answers("\x01\x00\x01\x00\x00\x01\xdc\x00\x0a\x00\x0a")), long, "it does not speak AMQP"},
	} {
		err := tryFor(t, Target{}, nodefile.Probe{AMQP: "amqp://" + c.address}, c.timeout)
		wantError(t, name, err, c.want)
		if err != nil && !strings.HasPrefix(err.Error(), "probe amqp://"+c.address+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// container returns a target whose file system has the certificate of a TLS server as
// /ca.pem and in the bundle of the system, and the server's configuration.
func container(t *testing.T) (Target, *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	proc := t.TempDir()
	root := filepath.Join(proc, "7/root")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for path, content := range map[string]string{"/ca.pem": string(certificate), "/no.pem": "none", "/etc/pki/tls/certs/ca-bundle.crt": string(certificate)} {
		if err := os.MkdirAll(filepath.Dir(root+path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := `-----BEGIN CERTIFICATE-----
MIIBOTCB4KADAgECAgEBMAoGCCqGSM49BAMCMA0xCzAJBgNVBAMTAmNhMCAXDTI0
MDEwMTAwMDAwMFoYDzIxMjQwMTAxMDAwMDAwWjANMQswCQYDVQQDEwJjYTBZMBMG
-----END CERTIFICATE-----
`
	if err := os.WriteFile(root+"/broken.pem", []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	return Target{Host: host.Host{Proc: proc}, PID: 7}, s.TLS
}

// The server's certificate is for 127.0.0.1 and example.com.
func TestAMQPWithTLS(t *testing.T) {
	target, config := container(t)
	overTLS := func(c net.Conn) net.Conn { return tls.Server(c, config) }
	broker := "amqps://" + server(t, overTLS, answers(greeting))
	short, long := time.Second, time.Minute
	for _, c := range []struct {
		name    string
		probe   nodefile.Probe
		target  Target
		timeout time.Duration
		want    string
	}{
		{"without authorities", nodefile.Probe{AMQP: broker}, target, long, ""},
		{"no container", nodefile.Probe{AMQP: broker}, Target{}, long, ""},
		{"verified", nodefile.Probe{AMQP: broker, CAFile: "/ca.pem"}, target, long, ""},
		{"another name", nodefile.Probe{AMQP: strings.Replace(broker, "127.0.0.1", "localhost", 1), CAFile: "/ca.pem"}, target, long, "certificate is valid for example.com"},
		{"no file", nodefile.Probe{AMQP: broker, CAFile: "/none.pem"}, target, long, "read the certificate authorities: "},
		{"no certificate", nodefile.Probe{AMQP: broker, CAFile: "/no.pem"}, target, long, "read the certificate authorities: /no.pem has no certificate"},
		{"a damaged certificate", nodefile.Probe{AMQP: broker, CAFile: "/broken.pem"}, target, long, "/broken.pem has no certificate"},
		{"a file of no container", nodefile.Probe{AMQP: broker, CAFile: "/ca.pem"}, Target{}, long, "its container does not run"},
		{"frozen", nodefile.Probe{AMQP: "amqps://" + frozen(t)}, target, short, "TLS handshake: it accepts connections, but does not answer"},
		{"silent after the handshake", nodefile.Probe{AMQP: "amqps://" + server(t, overTLS, never)}, target, short, "it accepts connections, but does not answer"},
		{"another protocol over TLS", nodefile.Probe{AMQP: "amqps://" + server(t, overTLS, answers("HTTP/1.1 400 Bad Request"))}, target, long, "it does not speak AMQP"},
		{"a broker without TLS", nodefile.Probe{AMQP: "amqps://" + server(t, plain, func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 8)); _, _ = io.WriteString(c, protocolHeader) })}, target, long, "TLS handshake: "},
	} {
		wantError(t, c.name, tryFor(t, c.target, c.probe, c.timeout), c.want)
	}
}

// Keystone's list of versions has the status 300.
func TestHTTPS(t *testing.T) {
	target, config := container(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMultipleChoices) }))
	s.TLS = config.Clone()
	s.StartTLS()
	t.Cleanup(s.Close)
	none := target
	none.PID = 8
	for _, c := range []struct {
		name   string
		probe  nodefile.Probe
		target Target
		want   string
	}{
		{"authorities of the container", nodefile.Probe{HTTP: s.URL}, target, ""},
		{"its own", nodefile.Probe{HTTP: s.URL, CAFile: "/ca.pem"}, target, ""},
		{"those of the host", nodefile.Probe{HTTP: s.URL}, none, "certificate signed by unknown authority"},
		{"no container", nodefile.Probe{HTTP: s.URL}, Target{}, "certificate signed by unknown authority"},
		{"not found", nodefile.Probe{HTTP: s.URL, CAFile: "/none.pem"}, target, "probe " + s.URL + ": read the certificate authorities: "},
	} {
		wantError(t, c.name, tryFor(t, c.target, c.probe, time.Minute), c.want)
	}
}

func FuzzCheckStart(f *testing.F) {
	f.Add([]byte(greeting))
	f.Add([]byte(protocolHeader))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, answer []byte) {
		err := checkStart(answer[:min(len(answer), len(start))])
		method := len(answer) >= 11 && answer[0] == 1 && string(answer[1:3]) == "\x00\x00" && string(answer[7:11]) == "\x00\x0a\x00\x0a"
		if (err == nil) != method {
			t.Errorf("%q: %v", answer, err)
		}
	})
}
