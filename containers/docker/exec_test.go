package docker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/containers"
)

// An engine that hangs answers no request, also not the one that starts a command, in which
// the client does not look at the context.
func TestExecOnSilentEngine(t *testing.T) {
	for _, silent := range []string{"/exec", "/start"} {
		t.Run(silent, func(t *testing.T) {
			released := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, silent):
					<-released
				case strings.HasSuffix(r.URL.Path, "/exec"):
					w.WriteHeader(http.StatusCreated)
					fmt.Fprint(w, `{"Id": "command"}`)
				case strings.HasSuffix(r.URL.Path, "/json"):
					fmt.Fprint(w, `{"Id": "web", "Name": "/web", "Running": false}`)
				}
			}))
			defer server.Close()
			defer close(released)
			engine := connect(t, strings.Replace(server.URL, "http", "tcp", 1))
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := engine.Exec(ctx, "web", containers.Exec{Argv: []string{"true"}}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want that the time is over", err)
			}
		})
	}
}
