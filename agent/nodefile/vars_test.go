package nodefile_test

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/nodefile"
)

// choosy is a profile whose variables have fixed sets of values.
const choosy = `
networks: {linuxbridge: []}
vars: {kind: kvm, mode: "", tunnels: ""}
one_of: {kind: [kvm, qemu], mode: ["", host-model, none]}
some_of: {tunnels: [vxlan, gre]}
services: {one: {image: "a:1"}}
`

func TestAllowedValues(t *testing.T) {
	for vars, want := range map[string]string{
		"{kind: qemu, mode: none}": "",
		`{kind: kvm, mode: ""}`:    "",
		"{kind: null}":             "",
		`{tunnels: ""}`:            "",
		"{tunnels: []}":            "",
		"{tunnels: gre}":           "",
		"{tunnels: 'gre, vxlan'}":  "",
		"{tunnels: [vxlan, gre]}":  "",
		"{kind: xen}":              `1:8: vars.kind: expected one of kvm, qemu, got "xen"`,
		"{kind: [kvm]}":            `1:8: vars.kind: expected one of kvm, qemu, got "[kvm]"`,
		"{mode: true}":             `1:8: vars.mode: expected one of "", host-model, none, got "true"`,
		"{mode: host-moddel}":      `1:8: vars.mode: expected one of "", host-model, none, got "host-moddel"; did you mean host-model?`,
		"{tunnels: 'vxlan, grre'}": `1:8: vars.tunnels: expected one of vxlan, gre, got "grre"; did you mean gre?`,
		"{tunnels: [gre, ipip]}":   `1:8: vars.tunnels: expected one of vxlan, gre, got "ipip"`,
		"{kind: xen, mode: maybe}": `1:8: vars.kind: expected one of kvm, qemu, got "xen"` + "\n" + `node.yaml:1:19: vars.mode: expected one of "", host-model, none, got "maybe"`,
	} {
		_, err := nodefile.Parse("node.yaml", []byte("vars: "+vars+"\n"), func(string) ([]byte, error) { return []byte(choosy), nil }, nodefile.Change{})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", vars, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), "node.yaml:"+want) || strings.Count(err.Error(), "\n") != strings.Count(want, "\n")):
			t.Errorf("%s:\ngot  %v\nwant node.yaml:%s", vars, err, want)
		}
	}
}
