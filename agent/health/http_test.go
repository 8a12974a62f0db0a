package health

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
)

// A service that redirects its probe does not make kollet ask another server. What it
// answered itself is what counts.
func TestRedirectIsNotFollowed(t *testing.T) {
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer other.Close()
	service := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer service.Close()
	if err := try(t.Context(), Target{}, nodefile.Probe{HTTP: service.URL, Timeout: 5 * time.Second}); err != nil {
		t.Error(err)
	}
	if asked {
		t.Error("the other server was asked")
	}
}
