package health

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"

	"github.com/kollet/kollet/agent/nodefile"
)

func get(ctx context.Context, t Target, p nodefile.Probe) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.HTTP, nil)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	// It connects to the service directly and for each request. A proxy that is
	// configured for pulls, or an old connection, could be answered by something else.
	transport := &http.Transport{DisableKeepAlives: true}
	if strings.EqualFold(request.URL.Scheme, "https") {
		roots, err := t.authorities(p.CAFile)
		if err != nil {
			return fmt.Errorf("probe %s: %w", p.HTTP, err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	// The service chooses where a redirection leads. Its answer is judged by its own status,
	// and root's kollet asks no other server for it.
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("probe %s: answered %s", p.HTTP, response.Status)
	}
	return nil
}
