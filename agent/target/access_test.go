package target

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/nodefile"
)

// The credentials come from the node file and its secrets, and get into no record.
func TestCloud(t *testing.T) {
	const text = "openstack: {auth_url: 'http://k/v3', username: u, password: rabbit, user_domain: d, project: p, project_domain: d, region: r, ca_file: /etc/ca.pem}\nquiesce: {on_busy: defer}\n"
	target, err := readText(t, text+strings.Replace(base, "FIELDS", "user: nova", 1))
	if err != nil {
		t.Fatal(err)
	}
	a := target.Cloud.Access
	if a == nil || a.Password != "hunter2" || a.AuthURL != "http://k/v3" || a.Username != "u" || a.Region != "r" || !strings.HasSuffix(a.CAFile, "/etc/ca.pem") || target.Cloud.Quiesce.OnBusy != nodefile.Defer {
		t.Errorf("got %+v", target.Cloud)
	}
	data, err := json.Marshal(target.Services)
	if err != nil || strings.Contains(string(data), "hunter2") {
		t.Errorf("%s, %v", data, err)
	}
}
