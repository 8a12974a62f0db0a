package extra

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/nodetest"
)

// Ceilometer's agent asks Nova which id the flavor of a guest has. This is Nova's API, from the
// packages of nova-compute's image, with the authentication that needs no Keystone.
const (
	novaURL   = "http://127.0.0.1:8774/v2.1"
	novaToken = "admin:admin" // user and project
	novaFile  = "/etc/kollet/nova-api.conf"
	novaConf  = `[DEFAULT]
state_path = /tmp
[api]
auth_strategy = noauth2
[api_database]
connection = sqlite:////tmp/api.sqlite
[database]
connection = sqlite:////tmp/cell.sqlite
`
	novaService = `    command:
      - sh
      - -c
      - |
        set -e
        cp /usr/share/nova-common/api-paste.ini /tmp/api-paste.ini
        nova-manage --config-file /tmp/nova.conf api_db sync
        nova-manage --config-file /tmp/nova.conf db sync --local_cell
        exec nova-api-wsgi --host 127.0.0.1 --port 8774
    user: nova
    network_mode: host
    environment: {OS_NOVA_CONFIG_DIR: /tmp}
    config:
      - {source: ` + novaFile + `, dest: /tmp/nova.conf, owner: nova, perm: "0600"}
    healthcheck:
      - {http: "http://127.0.0.1:8774/", interval: 1s, start_period: 300s}
`
)

// novaMetadata is what Nova writes into the XML of a guest (nova: LibvirtConfigGuestMetaNovaInstance).
const (
	flavorName, flavorID = "small", "f1a0"
	projectID, userID    = "0f0a2b6d5c0e4a0f9b1e6f2c8d3a4b5c", "9a8b7c6d5e4f40a1b2c3d4e5f6071829"
	novaMetadata         = `<metadata>
    <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:package version="26.2.2"/>
      <nova:name>web</nova:name>
      <nova:creationTime>2026-01-02 03:04:05</nova:creationTime>
      <nova:flavor name="` + flavorName + `">
        <nova:memory>128</nova:memory>
        <nova:disk>0</nova:disk>
        <nova:swap>0</nova:swap>
        <nova:ephemeral>0</nova:ephemeral>
        <nova:vcpus>1</nova:vcpus>
      </nova:flavor>
      <nova:owner>
        <nova:user uuid="` + userID + `">nova</nova:user>
        <nova:project uuid="` + projectID + `">service</nova:project>
      </nova:owner>
    </nova:instance>
  </metadata>
  `
)

// consumer takes notifications as Ceilometer's notification agent does, and prints the first
// sample of a guest's processor time that is newer than its second argument.
const consumer = `
import json, sys, threading
import oslo_messaging
from oslo_config import cfg

url, since = sys.argv[1:]
found, first = threading.Event(), threading.Lock()

class Endpoint:
    def sample(self, context, publisher, event, payload, metadata):
        for s in payload['samples']:
            if s['counter_name'] == 'cpu' and s['timestamp'] > since and first.acquire(blocking=False):
                print(json.dumps(s))
                found.set()

conf = cfg.ConfigOpts()
conf([], default_config_files=[])
listener = oslo_messaging.get_notification_listener(
    oslo_messaging.get_notification_transport(conf, url=url),
    [oslo_messaging.Target(exchange='ceilometer', topic='notifications')],
    [Endpoint()], executor='threading')
listener.start()
found.wait(180)
listener.stop()
listener.wait()
sys.exit(not found.is_set())
`

// sample is what Ceilometer's agent sends.
type sample struct {
	Name     string  `json:"counter_name"`
	Volume   float64 `json:"counter_volume"`
	Resource string  `json:"resource_id"`
	Project  string  `json:"project_id"`
	User     string  `json:"user_id"`
	Metadata struct {
		Name   string `json:"display_name"`
		Status string `json:"status"`
		Host   string `json:"instance_host"`
		Flavor struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"flavor"`
	} `json:"resource_metadata"`
}

// samples has Ceilometer's agent poll more often than the profile does, with another
// authentication at Nova.
func samples(t *testing.T, c *compute) {
	c.createFlavor()
	c.Write("/etc/kollet/config/ceilometer.conf",
		fmt.Sprintf("[service_credentials]\nauth_type = admin_token\nendpoint = %s\ntoken = %s\n", novaURL, novaToken))
	polling, err := os.ReadFile("../../configs/templates/polling.yaml.tmpl")
	check(t, err)
	often := strings.Replace(string(polling), "interval: 300\n", "interval: 5\n", 1)
	contains(t, often, "interval: 5\n")
	c.Write("/etc/kollet/config/ceilometer/polling.yaml", often)
	c.Upgrade()
	c.sampled()
}

func (c *compute) createFlavor() {
	c.T.Helper()
	body := fmt.Sprintf(`{"flavor": {"id": %q, "name": %q, "ram": 128, "vcpus": 1, "disk": 0}}`, flavorID, flavorName)
	request, err := http.NewRequestWithContext(c.T.Context(), http.MethodPost, novaURL+"/flavors", bytes.NewBufferString(body))
	check(c.T, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Auth-Token", novaToken)
	answer, err := http.DefaultClient.Do(request)
	check(c.T, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		c.T.Fatalf("Nova makes no flavor: %s", answer.Status)
	}
}

// sampled waits for a sample of the guest that Ceilometer's agent takes after now.
func (c *compute) sampled() sample {
	c.T.Helper()
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000")
	out := c.exec(0, "nova-compute", "python3", "-c", consumer, "rabbit://openstack:"+rabbitPassword+"@127.0.0.1:5672//", now).Stdout
	var s sample
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		c.T.Fatalf("read a sample: %v\n%s", err, out)
	}
	if s.Volume <= 0 || s.Resource != guestUUID || s.Project != projectID || s.User != userID {
		c.T.Errorf("sample: %s", out)
	}
	if m := s.Metadata; m.Name != "web" || m.Status != "active" || m.Host != c.Status().Node || m.Flavor.ID != flavorID || m.Flavor.Name != flavorName {
		c.T.Errorf("metadata of a sample: %+v\n%s", m, out)
	}
	return s
}

// libvirtReplaced upgrades libvirt under those that are connected to it.
func libvirtReplaced(t *testing.T, c *compute) {
	guest, before := c.Guests(), c.sampled()
	was := map[string]string{}
	for _, name := range []string{"ceilometer-compute", "prometheus-libvirt-exporter", "nova-libvirt"} {
		was[name] = c.Service(name).Container
	}
	c.use(nodetest.NewVersion)
	c.Images["nova-libvirt"] = nodetest.NewVersion
	c.Upgrade()
	for name, container := range was {
		if now := c.Service(name).Container; (now == container) == (name == "nova-libvirt") {
			t.Errorf("%s was in %s, and is in %s", name, container, now)
		}
	}
	if now := c.Guests(); len(now) != 1 || !now[0].Same(guest[0].Guest) {
		t.Errorf("guests: %+v, now %+v", guest, now)
	}
	contains(t, get(t, "9177"), "libvirt_up 1", `domain="ticker"`)
	if now := c.sampled(); now.Volume <= before.Volume {
		t.Errorf("the guest had %g ns of processor time, and has %g", before.Volume, now.Volume)
	}
}
