package nodefile_test

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/nodefile"
)

func TestParseBroker(t *testing.T) {
	for text, want := range map[string]nodefile.Broker{
		"amqp://10.0.0.5:5672":      {Host: "10.0.0.5", Addr: "10.0.0.5:5672"},
		"amqp://rabbit":             {Host: "rabbit", Addr: "rabbit:5672"},
		"amqps://rabbit/":           {Host: "rabbit", Addr: "rabbit:5671", TLS: true},
		"amqps://[2001:db8::5]:443": {Host: "2001:db8::5", Addr: "[2001:db8::5]:443", TLS: true},
	} {
		if got, err := nodefile.ParseBroker(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "rabbit:5672", "10.0.0.5:5672", "http://rabbit", "amqp://", "amqp://:5672", "amqp://user:password@rabbit", "amqp://rabbit/vhost", "amqp://rabbit?x=1", "amqp://rabbit#x", "amqp://ra bbit", "amqp://rabbit:port", "amqp://]", "AMQP://rabbit"} {
		if got, err := nodefile.ParseBroker(text); err == nil || !strings.HasPrefix(err.Error(), "expected amqp://HOST:PORT or amqps://HOST:PORT, got ") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// What is accepted can be dialled.
func FuzzParseBroker(f *testing.F) {
	for _, seed := range []string{"amqp://a:1", "amqps://[::1]", "amqp://a/", "amqp://%41", "amqp://[::1%25eth0]:5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := nodefile.ParseBroker(text)
		if err != nil {
			return
		}
		host, port, err := net.SplitHostPort(b.Addr)
		if err != nil || host != b.Host || host == "" || port == "" {
			t.Errorf("%q: %+v, %v", text, b, err)
		}
	})
}

func TestCheckTCP(t *testing.T) {
	for address, good := range map[string]bool{
		"10.0.0.5:5672": true, "[2001:db8::5]:5672": true, "localhost:amqp": true, ":80": true,
		"10.0.0.5": false, "2001:db8::5": false, "localhost:": false, "localhost:0": false, "localhost:65536": false, "localhost:-1": false, "tcp://localhost:80": false,
	} {
		key, err := nodefile.Probe{TCP: address}.Check()
		if good && err != nil || !good && (key != "tcp" || err == nil || !strings.HasPrefix(err.Error(), "expected HOST:PORT, got ")) {
			t.Errorf("%s: %s, %v", address, key, err)
		}
	}
}

func TestInContainer(t *testing.T) {
	for _, c := range []struct {
		probe nodefile.Probe
		want  bool
	}{
		{nodefile.Probe{Exec: []string{"true"}}, true},
		{nodefile.Probe{Unix: "/s"}, true},
		{nodefile.Probe{TCP: "a:1"}, false},
		{nodefile.Probe{HTTP: "http://a", CAFile: "/ca"}, false},
		{nodefile.Probe{HTTP: "https://a"}, true}, // the container's certificate authorities
		{nodefile.Probe{AMQP: "amqp://a", CAFile: "/ca"}, false},
		{nodefile.Probe{AMQP: "amqps://a"}, false},
		{nodefile.Probe{AMQP: "amqps://a", CAFile: "/ca"}, true},
	} {
		if got := c.probe.InContainer(); got != c.want {
			t.Errorf("%+v: %v", c.probe, got)
		}
	}
}

func TestParseRemotes(t *testing.T) {
	got, err := nodefile.ParseRemotes("tcp:10.0.0.5:6642, ssl:[2001:db8::6]:6642")
	want := []nodefile.Remote{{Addr: "10.0.0.5:6642"}, {Addr: "[2001:db8::6]:6642", TLS: true}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, text := range []string{"", "tcp:", "tcp:10.0.0.5", "tcp::6642", "10.0.0.5:6642", "unix:/run/sb.sock", "tcp:10.0.0.5:6642,", "tcp:10.0.0.5:66420", "tcp:2001:db8::6:6642"} {
		if got, err := nodefile.ParseRemotes(text); err == nil || !strings.HasPrefix(err.Error(), "expected tcp:HOST:PORT or ssl:HOST:PORT") {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}
