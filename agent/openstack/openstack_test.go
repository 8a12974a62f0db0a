package openstack

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/wary"
)

// api answers as Keystone, Nova and Neutron of the Zed release do, with what their
// own APIs printed for these requests.
type api struct {
	*httptest.Server

	mu      sync.Mutex
	answers map[string]string // by method and path, with the query
	failing map[string]int    // how often a request is still answered with 503
	asked   []string
	expired bool     // the token, until there is another
	logins  []string // bodies
}

func newAPI(t *testing.T, answers map[string]string, tls bool) *api {
	t.Helper()
	a := &api{answers: answers, failing: map[string]int{}}
	if tls {
		a.Server = httptest.NewTLSServer(a)
	} else {
		a.Server = httptest.NewServer(a)
	}
	t.Cleanup(a.Close)
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	request := r.Method + " " + r.URL.String()
	a.asked = append(a.asked, request)
	switch {
	case a.failing[request] > 0:
		a.failing[request]--
		w.WriteHeader(http.StatusServiceUnavailable)
	case request == "POST /v3/auth/tokens":
		a.logins, a.expired = append(a.logins, string(body)), false
		if !strings.Contains(string(body), "right") {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}`)
			return
		}
		w.Header().Set("X-Subject-Token", "gAAAA")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":{"methods":["password"],"expires_at":%q,"catalog":[
			{"type":"compute","name":"nova","endpoints":[
				{"interface":"public","region":"RegionOne","region_id":"RegionOne","url":"http://public.invalid/"},
				{"interface":"internal","region":"RegionOne","region_id":"RegionOne","url":"%[2]s/v2.1"}]},
			{"type":"network","name":"neutron","endpoints":[
				{"interface":"internal","region":"RegionOne","region_id":"RegionOne","url":"%[2]s/network"}]},
			{"type":"placement","name":"placement","endpoints":[
				{"interface":"internal","region":"RegionOne","region_id":"RegionOne","url":"%[2]s/placement"}]}]}}`,
			time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"), a.URL)
	case request == "GET /network/":
		fmt.Fprint(w, `{"versions": [{"id": "v2.0", "status": "CURRENT", "links": []}]}`)
	case r.Header.Get("X-Auth-Token") != "gAAAA" || a.expired:
		w.WriteHeader(http.StatusUnauthorized)
	case a.answers[request] == "":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"itemNotFound":{"code":404,"message":"Instance could not be found."}}`)
	case a.answers[request] == "forbidden":
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"forbidden":{"code":403,"message":"Policy doesn't allow os_compute_api:os-services:list to be performed."}}`)
	default:
		if strings.HasPrefix(r.URL.Path, "/v2.1/") && r.Header.Get("X-OpenStack-Nova-API-Version") != microversion {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, a.answers[request])
		a.asked = append(a.asked, string(body))
	}
}

func (a *api) access() Access {
	return Access{AuthURL: a.URL + "/v3", Username: "kollet", Password: "right", UserDomain: "Default", Project: "service", ProjectDomain: "Default", Region: "RegionOne", Interface: "internal"}
}

func (a *api) open(t *testing.T) *Cloud {
	t.Helper()
	c, err := Open(t.Context(), a.access(), "compute-1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	listServices   = "GET /v2.1/os-services?binary=nova-compute&host=compute-1"
	listServers    = "GET /v2.1/servers/detail?all_tenants=true&host=compute-1"
	listMigrations = "GET /v2.1/os-migrations?host=compute-1&limit=100"
	listAgents     = "GET /network/v2.0/agents?binary=neutron-linuxbridge-agent&host=compute-1"
	service        = `{"id": "7dbd", "binary": "nova-compute", "host": "compute-1", "zone": "nova", "status": "enabled", "state": "up", "updated_at": "2026-11-22T01:02:03.000000", "disabled_reason": null, "forced_down": false}`
)

func TestServices(t *testing.T) {
	a := newAPI(t, map[string]string{
		listServices:                 `{"services": [` + service + `]}`,
		"PUT /v2.1/os-services/7dbd": `{"service": ` + service + `}`,
		listAgents:                   `{"agents": [{"id": "a1", "binary": "neutron-linuxbridge-agent", "host": "compute-1", "alive": true, "started_at": "2026-11-22 01:00:00", "heartbeat_timestamp": "2026-11-22 01:02:00", "configurations": {}}]}`,
	}, false)
	c := a.open(t)
	got, err := c.ComputeService(t.Context(), "nova-compute")
	if err != nil || got.ID != "7dbd" || !got.Enabled() || got.State != "up" || got.UpdatedAt != "2026-11-22T01:02:03.000000" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := c.Disable(t.Context(), got.ID, "kollet: upgrade to generation 7"); err != nil {
		t.Error(err)
	}
	if err := c.Enable(t.Context(), got.ID); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`{"status":"disabled","disabled_reason":"kollet: upgrade to generation 7"}`, `{"status":"enabled"}`} {
		if !slices.ContainsFunc(a.asked, func(body string) bool { return sameJSON(body, want) }) {
			t.Errorf("%s was not sent: %q", want, a.asked)
		}
	}
	agent, err := c.Agent(t.Context(), "neutron-linuxbridge-agent")
	if err != nil || !agent.Alive || agent.HeartbeatTimestamp != "2026-11-22 01:02:00" || agent.StartedAt != "2026-11-22 01:00:00" {
		t.Errorf("%+v, %v", agent, err)
	}
	a.answers[listServices], a.answers[listAgents] = `{"services": []}`, `{"agents": []}`
	if _, err := c.ComputeService(t.Context(), "nova-compute"); !errors.Is(err, ErrUnknownHost) || err.Error() != "nova-compute of host compute-1 in Nova: not listed" {
		t.Error(err)
	}
	if _, err := c.Agent(t.Context(), "neutron-linuxbridge-agent"); !errors.Is(err, ErrUnknownHost) {
		t.Error(err)
	}
}

// OVN's agents have timestamps of another form, and do not say when they started.
func TestAgentOfOVN(t *testing.T) {
	a := newAPI(t, map[string]string{
		"GET /network/v2.0/agents?binary=ovn-controller&host=compute-1": `{"agents": [{"binary": "ovn-controller", "host": "compute-1", "heartbeat_timestamp": "2026-11-24 13:09:16.370000+00:00", "availability_zone": "", "topic": "n/a", "description": "", "configurations": {"chassis_name": "compute-1", "bridge-mappings": ""}, "agent_type": "OVN Controller agent", "id": "compute-1", "alive": true, "admin_state_up": true}]}`,
	}, false)
	agent, err := a.open(t).Agent(t.Context(), "ovn-controller")
	if err != nil || !agent.Alive || agent.HeartbeatTimestamp != "2026-11-24 13:09:16.370000+00:00" || agent.StartedAt != "" {
		t.Errorf("%+v, %v", agent, err)
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

func detail(id, status, task string) string {
	state := "null"
	if task != "" {
		state = `"` + task + `"`
	}
	return fmt.Sprintf(`{"id": %q, "name": "web-%s", "status": %q, "updated": "2026-11-22T01:02:03Z", "OS-EXT-STS:task_state": %s, "OS-EXT-SRV-ATTR:host": "compute-1", "flavor": {"vcpus": 1}}`, id, id, status, state)
}

func migration(server, kind, status, source, dest string) string {
	return fmt.Sprintf(`{"id": 1, "uuid": "u", "instance_uuid": %q, "migration_type": %q, "status": %q, "source_compute": %q, "dest_compute": %q, "created_at": "2026-11-22T01:02:03.000000", "updated_at": null}`, server, kind, status, source, dest)
}

func TestOperations(t *testing.T) {
	for name, c := range map[string]struct {
		here       []string          // servers on this host
		migrations []string          // from or to it
		elsewhere  map[string]string // servers on others, by id
		want       string
	}{
		"none":                      {nil, nil, nil, ""},
		"a server that runs":        {[]string{detail("1", "ACTIVE", "")}, nil, nil, ""},
		"stopped, in error, paused": {[]string{detail("1", "SHUTOFF", ""), detail("2", "ERROR", ""), detail("3", "PAUSED", "")}, nil, nil, ""},
		"a build":                   {[]string{detail("1", "BUILD", "spawning"), detail("2", "ACTIVE", "")}, nil, nil, "1 spawning"},
		"a build between tasks":     {[]string{detail("1", "BUILD", "")}, nil, nil, "1 BUILD"},
		"a snapshot":                {[]string{detail("1", "ACTIVE", "image_uploading")}, nil, nil, "1 image_uploading"},
		"a start":                   {[]string{detail("1", "SHUTOFF", "powering-on")}, nil, nil, "1 powering-on"},
		"a resize to be confirmed":  {[]string{detail("1", "VERIFY_RESIZE", "")}, []string{migration("1", "resize", "finished", "compute-0", "compute-1")}, nil, ""},
		"away":                      {[]string{detail("1", "MIGRATING", "migrating")}, []string{migration("1", "live-migration", "running", "compute-1", "compute-2")}, map[string]string{"1": detail("1", "MIGRATING", "migrating")}, "1 migrating"},
		"here, still elsewhere":     {nil, []string{migration("1", "live-migration", "preparing", "compute-2", "compute-1")}, map[string]string{"1": detail("1", "MIGRATING", "migrating")}, "1 migrating"},
		"left by a crash":           {nil, []string{migration("1", "live-migration", "running", "compute-2", "compute-1")}, map[string]string{"1": detail("1", "ACTIVE", "")}, ""},
		"of a deleted server":       {nil, []string{migration("1", "live-migration", "running", "compute-2", "compute-1")}, nil, ""},
		"over":                      {nil, []string{migration("1", "live-migration", "completed", "compute-2", "compute-1"), migration("2", "migration", "error", "compute-1", "compute-2")}, nil, ""},
		"confirmed elsewhere":       {nil, []string{migration("1", "resize", "confirming", "compute-1", "compute-2")}, map[string]string{"1": detail("1", "VERIFY_RESIZE", "")}, "1 confirming resize"},
		"evacuated from here":       {nil, []string{migration("1", "evacuation", "accepted", "compute-1", "compute-2")}, map[string]string{"1": detail("1", "REBUILD", "rebuilding")}, ""},
		"evacuated to here":         {nil, []string{migration("1", "evacuation", "accepted", "compute-2", "compute-1")}, map[string]string{"1": detail("1", "REBUILD", "rebuilding")}, "1 rebuilding"},
		"two records of one":        {nil, []string{migration("1", "migration", "migrating", "compute-2", "compute-1"), migration("1", "migration", "pre-migrating", "compute-2", "compute-1")}, map[string]string{"1": detail("1", "RESIZE", "resize_migrating")}, "1 resize_migrating"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{
				listServers:    `{"servers": [` + strings.Join(c.here, ",") + `]}`,
				listMigrations: `{"migrations": [` + strings.Join(c.migrations, ",") + `]}`,
			}
			for id, s := range c.elsewhere {
				answers["GET /v2.1/servers/"+id] = `{"server": ` + s + `}`
			}
			found, err := newAPI(t, answers, false).open(t).Operations(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range found {
				got = append(got, o.Server+" "+o.Task)
				if o.Name != "web-"+o.Server || !o.Since.Equal(time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)) {
					t.Errorf("got %+v", o)
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Nova ignores the filter of a user who may not use it, and lists the servers of all
// hosts.
func TestOperationsOfOtherHosts(t *testing.T) {
	elsewhere := strings.Replace(detail("2", "BUILD", "spawning"), `"compute-1"`, `"compute-2"`, 1)
	a := newAPI(t, map[string]string{listServers: `{"servers": [` + detail("1", "ACTIVE", "") + `,` + elsewhere + `]}`, listMigrations: `{"migrations": []}`}, false)
	found, err := a.open(t).Operations(t.Context())
	want := "ask Nova for the servers of host compute-1: it lists those of other hosts as well; give the user of openstack in the node file the rights that docs/openstack.md lists"
	if err == nil || err.Error() != want {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestErrors(t *testing.T) {
	a := newAPI(t, map[string]string{listServices: "forbidden"}, false)
	wrong := a.access()
	wrong.Password = "hunter2hunter2"
	_, err := Open(t.Context(), wrong, "compute-1")
	if err == nil || !strings.HasSuffix(err.Error(), "401 Unauthorized: The request you have made requires authentication.; check the credentials below openstack in the node file") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
	elsewhere := a.access()
	elsewhere.Region = "RegionTwo"
	if _, err := Open(t.Context(), elsewhere, "compute-1"); err == nil || !strings.Contains(err.Error(), "check openstack.region") {
		t.Error(err)
	}
	_, err = a.open(t).ComputeService(t.Context(), "nova-compute")
	if want := "ask Nova for the nova-compute of host compute-1: 403 Forbidden: Policy doesn't allow os_compute_api:os-services:list to be performed.; give the user of openstack in the node file the rights that docs/openstack.md lists"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for body, want := range map[string]string{
		`{"versions": [{"id": "v2.1"}]}`: "the answer is not that of this API; check auth_url, and the endpoints in the catalogue",
		"<html>":                         "the answer is not that of this API; check auth_url, and the endpoints in the catalogue",
	} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		defer other.Close()
		_, err := Open(t.Context(), Access{AuthURL: other.URL + "/v2.1", Username: "u", Password: "p", UserDomain: "d"}, "compute-1")
		if err == nil || err.Error() != "ask Keystone at "+other.URL+"/v2.1 for a token: "+want {
			t.Errorf("%s: %v", body, err)
		}
	}
	if !Refused(err) {
		t.Errorf("not refused: %v", err)
	}
	closed := a.access()
	closed.AuthURL = "http://127.0.0.1:1/v3"
	if _, err := Open(t.Context(), closed, "compute-1"); err == nil || !strings.Contains(err.Error(), "connection refused") || Refused(err) {
		t.Error(err)
	}
}

func TestPlacement(t *testing.T) {
	a := newAPI(t, map[string]string{"GET /placement/": `{"versions": [{"id": "v1.0"}]}`}, false)
	c := a.open(t)
	if err := c.Placement(t.Context()); err != nil {
		t.Error(err)
	}
	a.answers["GET /placement/"] = "forbidden"
	if err := c.Placement(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "ask Placement at "+a.URL+"/placement/, without which nova-compute does not start: 403 Forbidden: ") {
		t.Error(err)
	}
	given := a.access()
	given.PlacementURL = "http://10.0.0.6:8778"
	if c, err := Open(t.Context(), given, "compute-1"); err != nil || c.Placement(t.Context()) != nil {
		t.Errorf("the catalogue's was asked: %v", err)
	}
}

// A URL of TLS at which no TLS is spoken.
func TestNoTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 16<<10)) // what a server without TLS cannot parse
			c.Close()
		}
	}()
	_, err = Open(t.Context(), Access{AuthURL: "https://" + l.Addr().String() + "/v3", Username: "u", Password: "p", UserDomain: "d"}, "compute-1")
	if err == nil || !strings.HasSuffix(err.Error(), "the connection was closed without an answer; check whether TLS is used there, as https: says") {
		t.Error(err)
	}
}

// Keystone may be away when the token expires in the middle of a long wait.
func TestTokenExpires(t *testing.T) {
	a := newAPI(t, map[string]string{listServices: `{"services": [` + service + `]}`}, false)
	c := a.open(t)
	a.expired = true
	a.failing["POST /v3/auth/tokens"] = retries + 1
	_, err := c.ComputeService(t.Context(), "nova-compute")
	if want := "ask Nova for the nova-compute of host compute-1: the token has expired; ask Keystone for another: 503 Service Unavailable"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := c.ComputeService(t.Context(), "nova-compute"); err != nil {
		t.Error(err)
	}
}

// A request that a proxy could not forward is sent again, and one that the API
// refuses is not.
func TestRetry(t *testing.T) {
	a := newAPI(t, map[string]string{listServices: `{"services": [` + service + `]}`}, false)
	c := a.open(t)
	a.failing[listServices] = 1
	if _, err := c.ComputeService(t.Context(), "nova-compute"); err != nil {
		t.Error(err)
	}
	a.asked, a.answers[listServices] = nil, "forbidden"
	if _, err := c.ComputeService(t.Context(), "nova-compute"); err == nil || len(a.asked) != 1 {
		t.Errorf("%v after %q", err, a.asked)
	}
}

func TestApplicationCredential(t *testing.T) {
	a := newAPI(t, nil, false)
	access := Access{AuthURL: a.URL + "/v3", CredentialID: "c1", CredentialSecret: "right", Region: "RegionOne", Interface: "internal"}
	if _, err := Open(t.Context(), access, "compute-1"); err != nil {
		t.Fatal(err)
	}
	if want := `{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":"c1","secret":"right"}}}}`; len(a.logins) != 1 || !sameJSON(a.logins[0], want) {
		t.Errorf("sent %q", a.logins)
	}
}

func TestCertificateAuthorities(t *testing.T) {
	a := newAPI(t, nil, true)
	access := a.access()
	if _, err := Open(t.Context(), access, "compute-1"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without its authority: %v", err)
	}
	access.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	if _, err := Open(t.Context(), access, "compute-1"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	if err := unix.Mkfifo(access.CAFile, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), access, "compute-1"); err == nil || !strings.Contains(err.Error(), access.CAFile+" is a FIFO, not a regular file") {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(access.CAFile), os.WriteFile(access.CAFile, []byte("nothing"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), access, "compute-1"); err == nil || !strings.Contains(err.Error(), "has no certificate in PEM format") {
		t.Error(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	if err := os.WriteFile(access.CAFile, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), access, "compute-1"); err != nil {
		t.Error(err)
	}
	link := filepath.Join(t.TempDir(), "link.pem")
	if err := os.Symlink(access.CAFile, link); err != nil {
		t.Fatal(err)
	}
	access.CAFile = link
	if _, err := Open(t.Context(), access, "compute-1"); err != nil {
		t.Errorf("through the operator's link: %v", err)
	}
	access.Writable = wary.DirsOf(filepath.Dir(link))
	if _, err := Open(t.Context(), access, "compute-1"); err == nil || !strings.Contains(err.Error(), link+" is a symbolic link that a container could have put there") {
		t.Error(err)
	}
}

func TestGracefulShutdown(t *testing.T) {
	for version, want := range map[string]time.Duration{
		"26.2.2": time.Minute, "32.0.0": time.Minute, "33.0.0": 3 * time.Minute, "34.1.0.dev12": 3 * time.Minute, "33.0.0-1~bpo12+1": 3 * time.Minute,
	} {
		if got, err := GracefulShutdown(version); err != nil || got != want {
			t.Errorf("%s: %v, %v", version, got, err)
		}
	}
	if _, err := GracefulShutdown("Traceback"); err == nil {
		t.Error("no version was accepted")
	}
}
