package nodefile

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/kollet/kollet/configs/report"
)

// OpenStack is how kollet asks the control plane about this node: as a user with a
// password, or with an application credential.
type OpenStack struct {
	AuthURL       string `yaml:"auth_url" doc:"URL of Keystone; default: the variable auth_url"`
	Username      string `yaml:"username" doc:"user at Keystone"`
	Password      string `yaml:"password" doc:"name of the secret that is the user's password"`
	UserDomain    string `yaml:"user_domain" doc:"the user's domain; default: the variable auth_domain"`
	Project       string `yaml:"project" doc:"the project in which the user has its roles; default: the variable auth_project"`
	ProjectDomain string `yaml:"project_domain" doc:"the project's domain; default: the variable auth_domain"`

	ApplicationCredentialID     string `yaml:"application_credential_id" doc:"ID of an application credential, instead of a user"`
	ApplicationCredentialSecret string `yaml:"application_credential_secret" doc:"name of the secret that is the application credential's secret"`

	Region    string `yaml:"region" doc:"region of the endpoints; default: the variable region"`
	Interface string `yaml:"interface" doc:"endpoints of the catalogue to use: internal, public or admin; default: the variable auth_interface"`
	CAFile    string `yaml:"ca_file" doc:"file on the host with the certificate authorities of the APIs; default: those of the host"`
}

// Quiesce is what happens to operations that are under way when nova-compute or
// libvirt is about to be replaced.
type Quiesce struct {
	Disable *bool         `yaml:"disable" doc:"disable the compute service during an upgrade, so that Nova places no servers on this node (default true with the credentials of openstack)"`
	Wait    time.Duration `yaml:"wait" doc:"how long to wait for operations that are under way (default 10m)"`
	OnBusy  string        `yaml:"on_busy" doc:"if operations are still under way then: refuse (default), the upgrade fails; or defer, it ends with the outcome deferred"`
}

// Values of Quiesce.OnBusy.
const (
	Refuse = "refuse"
	Defer  = "defer"
)

// ListedAs says how the control plane lists a service: by its binary.
type ListedAs struct {
	Nova    string `yaml:"nova" json:"nova,omitempty" doc:"in openstack compute service list, such as nova-compute"`
	Neutron string `yaml:"neutron" json:"neutron,omitempty" doc:"in openstack network agent list, such as neutron-linuxbridge-agent"`
}

// setCloudDefaults sets the defaults of openstack and quiesce.
func (n *Node) setCloudDefaults() {
	setDefault(&n.Quiesce.OnBusy, Refuse)
	n.setDuration(&n.Quiesce.Wait, "quiesce.wait", 10*time.Minute)
	if n.Quiesce.Disable == nil {
		disable := n.OpenStack != nil
		n.Quiesce.Disable = &disable
	}
	if n.OpenStack == nil {
		return
	}
	for _, d := range []struct {
		field    *string
		variable string
	}{
		{&n.OpenStack.AuthURL, "auth_url"},
		{&n.OpenStack.Region, "region"},
		{&n.OpenStack.Interface, "auth_interface"},
		{&n.OpenStack.UserDomain, "auth_domain"},
		{&n.OpenStack.ProjectDomain, "auth_domain"},
		{&n.OpenStack.Project, "auth_project"},
	} {
		if value, set := n.Vars[d.variable]; set && value != nil {
			setDefault(d.field, fmt.Sprint(value))
		}
	}
	setDefault(&n.OpenStack.Interface, "internal")
}

func (n *Node) validateCloud(problems *report.Problems) {
	if !slices.Contains([]string{Refuse, Defer}, n.Quiesce.OnBusy) {
		problems.Addf(n.Place("quiesce.on_busy"), "quiesce.on_busy", "expected one of refuse, defer, got %q", n.Quiesce.OnBusy)
	}
	if n.OpenStack == nil {
		if *n.Quiesce.Disable {
			problems.Addf(n.Place("quiesce.disable"), "quiesce.disable", "disabling the compute service needs credentials; add openstack, or remove disable")
		}
		return
	}
	n.validateCredentials(problems)
	bad := func(field, format string, args ...any) {
		key := "openstack." + field
		problems.Addf(n.Place(key), key, format, args...)
	}
	o := n.OpenStack
	u, err := url.Parse(o.AuthURL)
	switch {
	case err == nil && u.User != nil:
		bad("auth_url", "a URL with a password is not supported; use username and password")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		bad("auth_url", "expected the URL of Keystone, such as https://10.0.0.5:5000/v3, got %q; set it, or the variable auth_url", o.AuthURL)
	}
	if !slices.Contains([]string{"internal", "public", "admin"}, o.Interface) {
		bad("interface", "expected one of internal, public, admin, got %q", o.Interface)
	}
	if o.CAFile != "" && !path.IsAbs(o.CAFile) {
		bad("ca_file", "expected an absolute path, got %q", o.CAFile)
	}
}

// validateCredentials checks that there is one complete set of credentials. It does
// not print values: they may be passwords, written where a secret's name is
// expected.
func (n *Node) validateCredentials(problems *report.Problems) {
	o := n.OpenStack
	bad := func(field, format string, args ...any) {
		key := "openstack." + field
		problems.Addf(n.Place(key), key, format, args...)
	}
	secret := func(field, name string) {
		if _, known := n.Secrets[name]; name != "" && !known {
			bad(field, "expected the name of an entry of secrets%s", report.DidYouMean(name, slices.Sorted(maps.Keys(n.Secrets))))
		}
	}
	secret("password", o.Password)
	secret("application_credential_secret", o.ApplicationCredentialSecret)
	user := o.Username != "" || o.Password != ""
	credential := o.ApplicationCredentialID != "" || o.ApplicationCredentialSecret != ""
	for _, required := range []struct{ field, value, variable string }{
		{"project", o.Project, "auth_project"}, {"user_domain", o.UserDomain, "auth_domain"}, {"project_domain", o.ProjectDomain, "auth_domain"},
	} {
		if user && required.value == "" {
			bad(required.field, "is missing; set it, or the variable %s", required.variable)
		}
	}
	switch {
	case user == credential:
		problems.Addf(n.Place("openstack"), "openstack", "expected either username and password, or application_credential_id and application_credential_secret")
	case user && (o.Username == "" || o.Password == ""):
		problems.Addf(n.Place("openstack"), "openstack", "expected both username and password")
	case credential && (o.ApplicationCredentialID == "" || o.ApplicationCredentialSecret == ""):
		problems.Addf(n.Place("openstack"), "openstack", "expected both application_credential_id and application_credential_secret")
	}
}
