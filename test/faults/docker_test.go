package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"strings"
	"testing"
	"time"
)

// How a call to the engine goes wrong.
const (
	fails     = "fails"      // the engine answers with an error, and does nothing
	delayed   = "is delayed" // the engine gets it later
	cutBefore = "is cut off before the engine gets it"
	cutAfter  = "is cut off after the engine did it"
	late      = "is answered late"
	never     = "is never answered" // and the engine does not get it
)

var engineFaults = []string{fails, delayed, cutBefore, cutAfter, late}

// engineTimeout is kollet's limit for answers if one never comes.
const engineTimeout = 5 * time.Second

// Delays of one call, and of each call if all are delayed. kollet waits for some answers
// for two seconds.
const (
	longDelay  = 2500 * time.Millisecond
	shortDelay = 100 * time.Millisecond
)

func (t *trigger) delay() time.Duration {
	if t.lasting {
		return shortDelay
	}
	return longDelay
}

// A proxy passes calls on to an engine, and lets those fail that a trigger chooses.
type proxy interface {
	// inject sets what the next calls do.
	inject(fault string, t *trigger)
}

// dockerProxy is a proxy before Docker's socket.
type dockerProxy struct {
	injection
	forward *httputil.ReverseProxy
}

// newDockerProxy listens at a path.
func newDockerProxy(t testing.TB, engine, path string) proxy {
	t.Helper()
	target := strings.TrimPrefix(engine, "unix://")
	p := &dockerProxy{forward: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "docker"
		},
		Transport: &http.Transport{
			DisableKeepAlives:  true,
			DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", target)
			},
		},
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	listener, err := net.Listen("unix", path)
	check(t, err)
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { _ = server.Close() })
	return p
}

func (p *dockerProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, trigger := p.current()
	if trigger == nil || !trigger.fires(dockerCall(r)) {
		p.forward.ServeHTTP(w, r)
		return
	}
	switch fault {
	case fails:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"message": "injected: the engine failed"}`)
	case delayed:
		pause(r.Context(), trigger.delay())
		p.forward.ServeHTTP(w, r)
	case cutBefore:
		panic(http.ErrAbortHandler) // closes the connection
	case cutAfter:
		p.changed(func(answer *http.Response) error {
			if answer.StatusCode != http.StatusSwitchingProtocols && !strings.HasSuffix(r.URL.Path, "/wait") {
				_, _ = io.Copy(io.Discard, answer.Body) // a pull is done when its progress ends
			}
			return errors.New("cut off")
		}).ServeHTTP(w, r)
	case late:
		p.changed(func(*http.Response) error {
			pause(r.Context(), trigger.delay())
			return nil
		}).ServeHTTP(w, r)
	case never:
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client is gone
		<-r.Context().Done()
	}
}

// changed returns the forwarding proxy with something that happens before the answer.
func (p *dockerProxy) changed(change func(*http.Response) error) http.Handler {
	f := *p.forward
	f.ModifyResponse = change
	return &f
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

var hexadecimal = regexp.MustCompile(`[0-9a-f]{12,}`)

// dockerCall names a call, without the numbers of containers.
func dockerCall(r *http.Request) string {
	return fmt.Sprintf("%s %s", r.Method, hexadecimal.ReplaceAllString(r.URL.Path, "ID"))
}
