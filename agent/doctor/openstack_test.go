package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
)

// plane answers as Keystone, Nova and Neutron; refused is a path that it refuses.
func plane(t *testing.T, refused string) string {
	t.Helper()
	var url string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == refused:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"forbidden": {"message": "not for hunter2"}}`)
		case r.URL.Path == "/v3/auth/tokens":
			w.Header().Set("X-Subject-Token", "t")
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"token": {"expires_at": "2099-01-01T00:00:00.000000Z", "catalog": [
				{"type": "compute", "endpoints": [{"interface": "internal", "region": "r", "url": "%[1]s/v2.1"}]},
				{"type": "network", "endpoints": [{"interface": "internal", "region": "r", "url": "%[1]s/net"}]}]}}`, url)
		case r.URL.Path == "/net/":
			fmt.Fprint(w, `{"versions": [{"id": "v2.0", "status": "CURRENT", "links": []}]}`)
		case r.URL.Path == "/v2.1/os-services":
			fmt.Fprint(w, `{"services": [{"id": "1", "binary": "nova-compute", "host": "compute-1", "status": "enabled", "state": "up"}]}`)
		case r.URL.Path == "/v2.1/servers/detail":
			fmt.Fprint(w, `{"servers": []}`)
		case r.URL.Path == "/v2.1/os-migrations":
			fmt.Fprint(w, `{"migrations": []}`)
		case r.URL.Path == "/net/v2.0/agents":
			fmt.Fprint(w, `{"agents": []}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	url = s.URL
	return url
}

func TestOpenStack(t *testing.T) {
	services := []generation.Service{
		{Name: "nova-libvirt"},
		{Name: "nova-compute", ListedAs: &nodefile.ListedAs{Nova: "nova-compute"}},
		{Name: "agent", ListedAs: &nodefile.ListedAs{Neutron: "agent"}},
	}
	const credentials = "openstack: {auth_url: %q, region: r, username: u, password: p, project: x, user_domain: d, project_domain: d}\n"
	mark := `{"format":1,"kollet":"1","binary":"nova-compute","reason":"kollet: upgrade to generation 7","since":"2026-01-02T12:00:00Z"}`
	for name, c := range map[string]struct {
		settings, mark, runs string
		want                 string
	}{
		"no credentials":  {"", "", "", ""},
		"all well":        {fmt.Sprintf(credentials, plane(t, "")+"/v3"), "", "", "openstack ok Keystone, Nova and Neutron answer; nova-compute is up and enabled; agent is not listed"},
		"not known there": {fmt.Sprintf(credentials, plane(t, "")+"/v3"), "", "agent", "openstack ok Keystone, Nova and Neutron answer; nova-compute is up and enabled; agent is not listedopenstack warning agent: agent of host compute-1 in Neutron: not listed"},
		"no rights":       {fmt.Sprintf(credentials, plane(t, "/v2.1/os-migrations")+"/v3"), "", "", "openstack problem ask Nova for the migrations of host compute-1: 403 Forbidden: not for <secret p>; give the user of openstack in the node file the rights that docs/openstack.md lists"},
		"no rights there": {fmt.Sprintf(credentials, plane(t, "/net/v2.0/agents")+"/v3"), "", "", "openstack problem ask Neutron for the agent of host compute-1: 403 Forbidden: "},
		"wrong password":  {fmt.Sprintf(credentials, plane(t, "/v3/auth/tokens")+"/v3"), "", "", "openstack problem ask Keystone at "},
		"left disabled":   {"", mark, "", `compute service warning kollet disabled it at 2026-01-02T12:00:00Z ("kollet: upgrade to generation 7")`},
		"damaged mark":    {"", "{", "", "compute service problem read whether kollet disabled the compute service: "},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node.Node{Root: t.TempDir(), Name: "compute-1", Host: host.Real()}
			for path, text := range map[string]string{
				node.DefaultNodeFile: "profile: none\n" + c.settings + "secrets: {p: {file: /p}}\nservices: {one: {image: 'a:1'}}\n", "/p": "hunter2", node.StateDir + "/disabled.json": c.mark,
			} {
				if text == "" {
					continue
				}
				if err := os.MkdirAll(filepath.Dir(n.Path(path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(n.Path(path), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.runs != "" {
				g := generation.Generation{Number: 1, Services: []generation.Service{{Name: c.runs, Origin: 1}}}
				if err := n.Store().Write(g, nil, func(string) error { return nil }); err != nil {
					t.Fatal(err)
				}
				if err := n.Store().SetCurrent(1); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			for _, check := range checkOpenStack(t.Context(), n, services) {
				got += check.Name + " " + string(check.Level) + " " + check.Text
			}
			if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
