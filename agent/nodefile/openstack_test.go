package nodefile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
)

const oneService = "\nservices: {one: {image: 'a:1'}}\n"

func TestOpenStackDefaults(t *testing.T) {
	n, err := parse("profile: none\nvars: {auth_url: 'https://keystone:5000/v3', auth_project: service, auth_domain: Default, region: RegionOne, auth_interface: admin}\n" +
		"secrets: {kollet: {file: /a}}\nopenstack: {username: kollet, password: kollet, project: other}" + oneService)
	if err != nil {
		t.Fatal(err)
	}
	want := nodefile.OpenStack{AuthURL: "https://keystone:5000/v3", Username: "kollet", Password: "kollet", UserDomain: "Default", Project: "other", ProjectDomain: "Default", Region: "RegionOne", Interface: "admin"}
	if *n.OpenStack != want {
		t.Errorf("got %+v", *n.OpenStack)
	}
	if q := n.Quiesce; !*q.Disable || q.Wait != 10*time.Minute || q.OnBusy != nodefile.Refuse {
		t.Errorf("got %+v", q)
	}
	n, err = parse("profile: none\nquiesce: {wait: 0s, on_busy: defer}" + oneService)
	if err != nil || n.OpenStack != nil || *n.Quiesce.Disable || n.Quiesce.Wait != 0 || n.Quiesce.OnBusy != nodefile.Defer {
		t.Errorf("without credentials: %+v, %v", n, err)
	}
	n, err = parse("profile: none\nopenstack: {application_credential_id: c, application_credential_secret: s, auth_url: 'http://k'}\nsecrets: {s: {env: S}}\nquiesce: {disable: false}" + oneService)
	if err != nil || n.OpenStack.Interface != "internal" || *n.Quiesce.Disable {
		t.Errorf("an application credential: %+v, %v", n, err)
	}
}

const domains = "auth_domain: Default, auth_project: service"

// Problems do not repeat what may be a password.
func TestOpenStackProblems(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		vars string
		want []string
	}{
		"none":              {"openstack: {auth_url: 'http://k'}", domains, []string{"node.yaml:2:1: openstack: expected either username and password, or application_credential_id and application_credential_secret"}},
		"both":              {"openstack: {auth_url: 'http://k', username: u, password: s, application_credential_id: i, application_credential_secret: s}", domains, []string{"node.yaml:2:1: openstack: expected either"}},
		"half a user":       {"openstack: {auth_url: 'http://k', username: u}", domains, []string{"node.yaml:2:1: openstack: expected both username and password"}},
		"half a credential": {"openstack: {auth_url: 'http://k', application_credential_id: u}", domains, []string{"node.yaml:2:1: openstack: expected both application_credential_id and application_credential_secret"}},
		"a password":        {"openstack: {auth_url: 'http://k', username: u, password: hunter2}", domains, []string{"node.yaml:2:48: openstack.password: expected the name of an entry of secrets"}},
		"no Keystone":       {"openstack: {username: u, password: s}", domains, []string{`node.yaml:2:1: openstack.auth_url: expected the URL of Keystone, such as https://10.0.0.5:5000/v3, got ""; set it, or the variable auth_url`}},
		"no URL":            {"openstack: {username: u, password: s, auth_url: 'keystone:5000'}", domains, []string{`node.yaml:2:39: openstack.auth_url: expected the URL of Keystone, such as https://10.0.0.5:5000/v3, got "keystone:5000"`}},
		"a URL with more":   {"openstack: {username: u, password: s, auth_url: 'http://a:hunter2@k'}", domains, []string{"node.yaml:2:39: openstack.auth_url: a URL with a password is not supported; use username and password"}},
		"interface":         {"openstack: {username: u, password: s, auth_url: 'http://k', interface: publick}", domains, []string{`node.yaml:2:61: openstack.interface: expected one of internal, public, admin, got "publick"`}},
		"ca_file":           {"openstack: {username: u, password: s, auth_url: 'http://k', ca_file: ca.pem}", domains, []string{`node.yaml:2:61: openstack.ca_file: expected an absolute path, got "ca.pem"`}},
		"on_busy":           {"quiesce: {on_busy: wait}", domains, []string{`node.yaml:2:11: quiesce.on_busy: expected one of refuse, defer, got "wait"`}},
		"disable without":   {"quiesce: {disable: true}", domains, []string{"node.yaml:2:11: quiesce.disable: disabling the compute service needs credentials; add openstack, or remove disable"}},
		"no project":        {"openstack: {auth_url: 'http://k', username: u, password: s, user_domain: d}", "auth_project: p", []string{"node.yaml:2:1: openstack.project_domain: is missing; set it, or the variable auth_domain"}},
		"unknown":           {"quiesce: {timeout: 1m}", domains, []string{"node.yaml:2:11: quiesce.timeout: unknown key"}},
		"wait":              {"quiesce: {wait: 10}", domains, []string{`node.yaml:2:17: quiesce.wait: expected a duration with its unit`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("profile: none\n" + c.text + "\nvars: {" + c.vars + "}\nsecrets: {s: {env: S}}" + oneService)
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(c.want) || !strings.HasPrefix(got[0], c.want[0]) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got  %v\nwant %s", err, c.want[0])
			}
		})
	}
}

// A stop_grace_period of the node file counts more than the service's version.
func TestVersionOfAService(t *testing.T) {
	for fields, want := range map[string]int{"version: [a, --version]": 2, "version: [a, --version]\nstop_grace_period: 60s": 0} {
		n, err := parse(own(fields))
		if err != nil || len(n.Services["one"].Version) != want || n.Services["one"].StopGracePeriod != time.Minute {
			t.Errorf("%s: %+v, %v", fields, n, err)
		}
	}
}
