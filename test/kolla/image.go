package kolla

import (
	"archive/tar"
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
	"github.com/kollet/kollet/test/tiny/image"
)

// tag is that of images that start as Kolla's do.
const tag = "kolla"

// start copies the configuration, unless kollet-start has, and executes the command of
// config.json.
const start = `#!/bin/sh -eu
if [ "$(id -u)" = 0 ]; then
	kolla_set_configs
else
	sudo /usr/local/bin/kolla_set_configs
fi
. /usr/local/bin/kolla_extend_start
exec $(cat /run_command)
`

// extensions are what the images of some services do before the service.
var extensions = map[string]string{"nova-ssh": "mkdir -p /run/sshd\nssh-keygen -A\n"}

// setConfigs reads a config.json in which each entry is one line. A nova_libvirt that is the first
// with the volume of Nova has to make what nova-compute's image has there.
const setConfigs = `#!/bin/sh -eu
[ ! -e /configured ] || exit 0
` + image.SetConfigs + `if [ -d /var/lib/nova ]; then
	install -d -o nova -g nova /var/lib/nova /var/lib/nova/instances
fi
`

// libvirtStart runs virtlogd beside libvirt, in the same session.
const libvirtStart = `#!/bin/sh -eu
install -d -m 0755 /run/libvirt /run/lock /var/log/kolla/libvirt/qemu /var/lib/libvirt/qemu /var/cache/libvirt
virtlogd &
exec libvirtd --listen
`

// sudoers lets the users of images become root for what Kolla's sudoers let them.
const sudoers = "ALL ALL=(root) NOPASSWD: /usr/local/bin/kolla_set_configs\n"

type file struct {
	path    string
	mode    int64
	content string
}

// files are what Kolla's images have, beside dumb-init.
var files = []file{
	{"usr/local/bin/kolla_start", 0o755, start},
	{"usr/local/bin/kolla_set_configs", 0o755, setConfigs},
	{"usr/local/bin/kolla_nova_libvirt_start", 0o755, libvirtStart},
	{"etc/sudoers.d/kolla", 0o440, sudoers},
}

// PushImage makes an image that starts as Kolla's do of one that make images built, and returns its
// name.
func PushImage(t testing.TB, registry *machine.Registry, service string) string {
	t.Helper()
	parse := func(tag string) name.Tag {
		ref, err := name.NewTag(registry.Addr+"/kolla/"+service+":"+tag, name.Insecure)
		nodetest.Check(t, err)
		return ref
	}
	base, err := remote.Image(parse(nodetest.OldVersion))
	nodetest.Check(t, err)
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	added := append(slices.Clone(files), file{"usr/local/bin/dumb-init", 0o755, string(image.Program(t))}, file{"usr/local/bin/kolla_extend_start", 0o755, extensions[service]})
	if strings.HasPrefix(service, "prometheus-") { // all of Kolla's images have sudo
		added = append(added, file{"usr/bin/sudo", 0o4755, string(image.Program(t))})
	}
	for _, f := range added {
		nodetest.Check(t, w.WriteHeader(&tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.content))}))
		_, err = io.WriteString(w, f.content)
		nodetest.Check(t, err)
	}
	nodetest.Check(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil })
	nodetest.Check(t, err)
	made, err := mutate.AppendLayers(base, layer)
	nodetest.Check(t, err)
	config, err := made.ConfigFile()
	nodetest.Check(t, err)
	config = config.DeepCopy()
	config.Config.Entrypoint, config.Config.Cmd = []string{"dumb-init", "--single-child", "--"}, []string{"kolla_start"}
	made, err = mutate.ConfigFile(made, config)
	nodetest.Check(t, err)
	nodetest.Check(t, remote.Write(parse(tag), made))
	return parse(tag).String()
}
