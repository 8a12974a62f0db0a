package upgrade

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/openstack"
)

// plane is a control plane behind HTTP, with compute services that are disabled.
type plane struct {
	*httptest.Server
	mu      sync.Mutex
	reasons map[string]string // by host
	enabled []string          // hosts
	down    int               // how many requests for a token are refused
}

func newPlane(t *testing.T, reasons map[string]string) *plane {
	t.Helper()
	p := &plane{reasons: reasons}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	host := r.URL.Query().Get("host")
	switch {
	case r.Method == http.MethodPost && p.down > 0:
		p.down--
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPost:
		w.Header().Set("X-Subject-Token", "t")
		w.WriteHeader(http.StatusCreated)
		endpoint := `{"type": %q, "endpoints": [{"interface": "internal", "region_id": "r", "url": "%s/%s"}]}`
		fmt.Fprintf(w, `{"token": {"expires_at": %q, "catalog": [`+endpoint+`, `+endpoint+`]}}`,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano), "compute", p.URL, "v2.1", "network", p.URL, "network")
	case r.Method == http.MethodPut:
		_, _ = io.Copy(io.Discard, r.Body)
		host = filepath.Base(r.URL.Path)
		p.enabled = append(p.enabled, host)
		delete(p.reasons, host)
		fmt.Fprint(w, `{"service": {}}`)
	case strings.HasPrefix(r.URL.Path, "/network"):
		fmt.Fprint(w, `{"versions": [{"id": "v2.0", "status": "CURRENT", "links": []}]}`)
	default:
		status := "enabled"
		if p.reasons[host] != "" {
			status = "disabled"
		}
		fmt.Fprintf(w, `{"services": [{"id": %q, "binary": "nova-compute", "host": %q, "status": %q, "disabled_reason": %q, "state": "up"}]}`, host, host, status, p.reasons[host])
	}
}

// credentials gives a node file the credentials for it.
func (p *plane) credentials(t *testing.T, file string) {
	t.Helper()
	text := fmt.Sprintf(`profile: none
secrets: {pw: {env: KOLLET_TEST_PASSWORD}}
openstack: {auth_url: "%s/v3", username: k, password: pw, project: service, user_domain: Default, project_domain: Default, region: r}
`, p.URL)
	t.Setenv("KOLLET_TEST_PASSWORD", "p")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// disabledBefore is a transaction on a node whose compute service an earlier command
// disabled and did not enable again.
func disabledBefore(t *testing.T) *transaction {
	t.Helper()
	yes := true
	nova := &control{service: openstack.ComputeService{ID: "1", Status: "enabled"}}
	tx, _ := computeNode(t, answering{answers: map[string]string{"nova-libvirt: jobs": "", "nova-compute: version": "26.2.2"}}, nova, nodefile.Quiesce{Disable: &yes})
	if err := tx.quiesce(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tx
}

// A command with another --host, such as a recovery at boot without it, enables the
// service that kollet disabled, and not that of its own host.
func TestEnableOnAnotherHost(t *testing.T) {
	tx := disabledBefore(t)
	ours := "kollet: upgrade to generation 2"
	p := newPlane(t, map[string]string{"compute-1": ours, "compute-1.example.org": ours})
	p.credentials(t, tx.node.NodeFilePath())
	tx.node.Name = "compute-1.example.org"
	for _, c := range []cloud{nil, &control{service: openstack.ComputeService{ID: "2", Status: "disabled", DisabledReason: ours}}} {
		if err := enableService(t.Context(), tx.node, c, tx.target.Redact); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.enabled) != 1 || p.enabled[0] != "compute-1" {
		t.Errorf("enabled %q", p.enabled)
	}
}

// A recovery of an upgrade that was interrupted before it quiesced enables the service
// that an earlier one left disabled.
func TestRecoveryEnables(t *testing.T) {
	for name, records := range map[string][]journal.Record{
		"before quiesce": {{Event: journal.Intent, Step: journal.Step{Kind: journal.Check}}},
		"in quiesce":     {{Event: journal.Intent, Step: journal.Step{Kind: journal.Quiesce}}},
	} {
		t.Run(name, func(t *testing.T) {
			tx := disabledBefore(t)
			p := newPlane(t, map[string]string{"compute-1": "kollet: upgrade to generation 2"})
			p.credentials(t, tx.node.NodeFilePath())
			tx.cloud = nil
			if err := tx.undoRecorded(context.WithoutCancel(t.Context()), records); err != nil {
				t.Fatal(err)
			}
			if len(p.enabled) != 1 {
				t.Errorf("enabled %q", p.enabled)
			}
		})
	}
}

// After a power loss the control plane may answer later than this node starts.
func TestRecoverWaitsForNova(t *testing.T) {
	for wait, want := range map[time.Duration]int{0: 0, time.Minute: 1} {
		tx := disabledBefore(t)
		if err := tx.finish(journal.Discarded, nil); err != nil {
			t.Fatal(err)
		}
		p := newPlane(t, map[string]string{"compute-1": "kollet: upgrade to generation 2"})
		p.credentials(t, tx.node.NodeFilePath())
		p.down = 2
		if _, err := Recover(t.Context(), tx.node, wait); err != nil {
			t.Fatal(err)
		}
		if len(p.enabled) != want {
			t.Errorf("wait %v: enabled %q", wait, p.enabled)
		}
	}
}
