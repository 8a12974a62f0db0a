package docker

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestStartWithStaleEndpoint starts a container whose endpoint Docker could not remove. No
// daemon gets into this state on request; TestFullDiskOfEngine has a real one that may.
func TestStartWithStaleEndpoint(t *testing.T) {
	const start, away, back, disconnect = "POST /containers/c1/start ", "POST /containers/c1/rename beta-endpoint", "POST /containers/c1/rename beta", "POST /networks/host/disconnect "
	const stale = "endpoint with name beta already exists in network host"
	for name, c := range map[string]struct {
		refused map[string]string // the first time: calls, and what Docker says
		calls   []string
		err     string
	}{
		"nothing is wrong": {nil, []string{start}, ""},
		"another error":    {map[string]string{start: "no"}, []string{start}, "no"},
		"removed":          {map[string]string{start: stale}, []string{start, away, disconnect, back, start}, ""},
		"cannot be named":  {map[string]string{start: stale, away: "full"}, []string{start, away}, "rename it to remove that: "},
		"cannot be freed":  {map[string]string{start: stale, disconnect: "full"}, []string{start, away, disconnect, back}, "remove that: "},
		"keeps the name":   {map[string]string{start: stale, back: "full"}, []string{start, away, disconnect, back}, "name it again: "},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("API-Version", "1.41")
				w.Header().Set("Content-Type", "application/json")
				if r.Method != http.MethodPost {
					_, _ = w.Write([]byte(`{"Name":"/beta","State":{}}`))
					return
				}
				call := "POST " + strings.TrimPrefix(r.URL.Path, "/v1.41") + " " + r.URL.Query().Get("name")
				again := slices.Contains(calls, call)
				calls = append(calls, call)
				if text := c.refused[call]; text != "" && !again {
					w.WriteHeader(http.StatusForbidden)
					_, _ = w.Write([]byte(answer(t, "message", text)))
				}
			}))
			t.Cleanup(server.Close)
			e, err := New("tcp://" + server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close() })
			err = e.Start(t.Context(), "c1")
			if !slices.Equal(calls, c.calls) {
				t.Errorf("calls %q, want %q", calls, c.calls)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
