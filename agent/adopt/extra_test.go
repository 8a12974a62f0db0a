package adopt

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/containers"
)

// What no container of kollet has is said.
func TestExtraSettings(t *testing.T) {
	var e engine
	e.kolla(t, "nova_compute", plainConfig, func(c *containers.Container) { c.Extra = []string{"dns", "hostname"} })
	p, _ := e.read(t, Options{})
	if want := "# - nova_compute: it loses these settings: dns, hostname\n"; !strings.Contains(p.NodeFile, want) {
		t.Errorf("want %s\n%s", want, p.NodeFile)
	}
}

// The registry of most images is not that of an image without one, nor of one by digest.
func TestImagesOfOtherRegistries(t *testing.T) {
	var e engine
	for name, ref := range map[string]string{"nova_compute": "", "nova_libvirt": "", "iscsid": "local:v1", "multipathd": "local", "nova_ssh": "mine/ssh:v1"} {
		e.kolla(t, name, plainConfig, func(c *containers.Container) {
			c.Spec.PID = "host"
			if ref != "" {
				e.images[ref] = e.images[c.ImageID]
				c.Spec.Image = ref
			}
		})
	}
	_, services := e.read(t, Options{})
	for name, want := range map[string]string{
		"nova-compute": registry + "nova-compute:2025.1", "iscsid": "docker.io/library/local:v1", "multipathd": "docker.io/library/local:latest", "nova-ssh": "mine/ssh:v1",
	} {
		if got := services[name].Image; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
