package health

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
)

// database answers the request for databases.
func database(text string) func(net.Conn) {
	return func(c net.Conn) {
		request := make([]byte, len(listDatabases))
		if _, err := io.ReadFull(c, request); err == nil && string(request) == listDatabases {
			_, _ = io.WriteString(c, text)
		}
	}
}

func TestOVSDB(t *testing.T) {
	refused := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		return "tcp:" + l.Addr().String()
	}()
	good := "tcp:" + server(t, plain, database(`{"id":"kollet","result":["OVN_Southbound","_Server"],"error":null}`))
	silent := server(t, plain, never)
	for name, c := range map[string]struct{ remotes, want string }{
		"a server":                  {good, ""},
		"one of several":            {refused + ", tcp:" + silent + "," + good, ""},
		"TLS":                       {"ssl:" + silent, ""},
		"nothing listens":           {refused, "connection refused"},
		"it does not answer":        {"tcp:" + silent, "it accepts connections, but does not answer"},
		"none of several":           {refused + ",tcp:" + silent, "connection refused"},
		"it closes":                 {"tcp:" + server(t, plain, database("")), "closed the connection without an answer"},
		"it is something else":      {"tcp:" + server(t, plain, database("HTTP/1.1 400 Bad Request\r\n\r\n")), "does not speak OVSDB"},
		"it answers something else": {"tcp:" + server(t, plain, database(`{"id":7}`)), "does not speak OVSDB"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Try(t.Context(), Target{}, []nodefile.Probe{{OVSDB: c.remotes, Timeout: 500 * time.Millisecond}})
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("got %v, want %s", err, c.want)
			}
		})
	}
}
