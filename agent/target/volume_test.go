package target

import (
	"testing"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs/report"
)

// An operator cannot remove a volume of the profile.
func TestRemedyOfAVolume(t *testing.T) {
	b := builder{file: &nodefile.Node{Profile: "compute"}, name: "nova-libvirt"}
	for file, want := range map[string]string{
		"/etc/kollet/node.yaml": "create it, or remove the volume",
		"profile compute":       "create the directory, or mount another one: set services.nova-libvirt.volumes in the node file to [{source: DIRECTORY, target: /lib/modules}]",
	} {
		m := nodefile.Volume{Target: "/lib/modules"}
		m.Place = report.Place{File: file}
		if got := b.remedyOf(m); got != want {
			t.Errorf("%s: %s", file, got)
		}
	}
}
