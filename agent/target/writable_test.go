package target

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// withVolume reads a node file whose service one mounts a directory of the host, and gets
// its files through links that root in its container may have made there.
func withVolume(t *testing.T, n *node.Node, volume, service, top string) error {
	t.Helper()
	const text = `profile: none
%s
services:
  one:
    image: a:1
    volumes: [%s]
    %s
`
	at := n.NodeFilePath()
	err := os.MkdirAll(filepath.Dir(at), 0o755)
	if err == nil {
		err = os.WriteFile(at, fmt.Appendf(nil, text, top, strings.ReplaceAll(volume, "ROOT", n.Root), service), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = Read(n, Options{}, "upgrade")
	return err
}

// planted are links to a file that only root may read. All directories are root's.
var planted = map[string]string{
	"/root/secret": `{"defaultAction": "SCMP_ACT_ALLOW"}`, "/srv/data/link": "->../../root/secret", "/srv/data/dir": "->../../root", "/srv/data/deep/link": "->../../../root/secret",
	"/etc/ceph/real.conf": "c", "/etc/ceph/ceph.conf": "->real.conf", "/srv/near": "->../root/secret", "/mnt": "->srv",
}

// Root in a container owns what it puts into a directory of root's that is mounted: a link
// there is not followed, wherever kollet reads a file that the operator names.
func TestNoLinkBelowAMountIsFollowed(t *testing.T) {
	const mounts = "{source: ROOT/srv/data, target: /data}"
	for name, c := range map[string]struct{ volume, service, top, link string }{
		"source":            {mounts, "config: [{source: /srv/data/link, dest: /a" + owned + "]", "", "/srv/data/link"},
		"optional source":   {mounts, "config: [{source: /srv/data/link, dest: /a, optional: true" + owned + "]", "", "/srv/data/link"},
		"below a link":      {mounts, "config: [{source: /srv/data/dir/secret, dest: /a" + owned + "]", "", "/srv/data/dir"},
		"below the mount":   {mounts, "config: [{source: /srv/data/deep/link, dest: /a" + owned + "]", "", "/srv/data/deep/link"},
		"pattern":           {mounts, "config: [{source: '/srv/data/l*', dest: /a/" + owned + "]", "", "/srv/data/link"},
		"another path":      {mounts, "config: [{source: /mnt/data/link, dest: /a" + owned + "]", "", "/srv/data/link"},
		"mounted as a link": {"{source: ROOT/mnt/data, target: /data}", "config: [{source: /srv/data/link, dest: /a" + owned + "]", "", "/srv/data/link"},
		"variable":          {"{source: 'ROOT/{{ .vars.dir }}/data', target: /data}", "config: [{source: /srv/data/link, dest: /a" + owned + "]", "vars: {dir: srv}", "/srv/data/link"},
		"parent":            {"{source: ROOT/srv, target: /data}", "config: [{source: /srv/near, dest: /a" + owned + "]", "", "/srv/near"},
		"seccomp profile":   {mounts, "security_opt: ['seccomp=/srv/data/link']", "", "/srv/data/link"},
		"secret":            {mounts, "config: [{content: '{{ secret \"s\" }}', dest: /a" + owned + "]", "secrets: {s: {file: /srv/data/link}}", "/srv/data/link"},
		"override":          {mounts, "config: [{content: '', format: ini, overrides: [one.conf], dest: /a" + owned + "]", "", "/srv/data/link"},
		"template":          {mounts, "config: [{template: one, dest: /a" + owned + "]", "", "/srv/data/link"},

		"the operator's link":  {mounts, "config: [{source: /etc/ceph/ceph.conf, dest: /a" + owned + "]", "", ""},
		"beside the mount":     {mounts, "config: [{source: /srv/near, dest: /a" + owned + "]", "", ""},
		"mounted read-only":    {"{source: ROOT/srv/data, target: /data, read_only: true}", "config: [{source: /srv/data/link, dest: /a" + owned + "]", "", ""},
		"root on the host":     {mounts, "privileged: true\n    config: [{source: /srv/data/link, dest: /a" + owned + "]", "", ""},
		"content of the mount": {mounts, "config: [{source: /srv/data/deep, dest: /a, merge: true, preserve_properties: true}]", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := onHost(t, planted)
			if at, ok := map[string]string{"override": "/etc/kollet/config/one.conf", "template": "/etc/kollet/templates/one"}[name]; ok { // the operator's link to it
				err := os.MkdirAll(filepath.Dir(n.Path(at)), 0o755)
				if err == nil {
					err = os.Symlink(n.Path("/srv/data/link"), n.Path(at))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			err := withVolume(t, n, c.volume, c.service, c.top)
			want := filepath.Join(n.Root, c.link) + " is a symbolic link that a container could have put there, because containers can write to "
			if c.link == "" && err != nil || c.link != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("got error %v, want %q", err, want)
			}
		})
	}
}

// What a container could write before is not trusted, either: it may have left a link.
func TestNoLinkBelowAFormerMountIsFollowed(t *testing.T) {
	n := onHost(t, planted)
	const service = "config: [{source: /srv/data/link, dest: /a" + owned + "]"
	mount := func(m containers.Mount, privileged bool) error {
		g := generation.Generation{Number: 1, Services: []generation.Service{{Name: "two", Spec: containers.Spec{Privileged: privileged, Mounts: []containers.Mount{m}}}}}
		if err := os.RemoveAll(n.Store().Path(1)); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(n.Store().Path(1)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := n.Store().Write(g, nil, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return withVolume(t, n, "", service, "")
	}
	data := containers.Mount{Type: containers.Bind, Source: n.Path("/srv/data"), Target: "/data"}
	if err := mount(data, false); err == nil || !strings.Contains(err.Error(), "/srv/data/link is a symbolic link that a container could have put there") {
		t.Errorf("got error %v", err)
	}
	if err := mount(data, true); err != nil {
		t.Error(err)
	}
	data.ReadOnly = true
	if err := mount(data, false); err != nil {
		t.Error(err)
	}
}

// Volumes and gates are below kollet's own directory, or that of Docker.
func TestNoLinkInAVolumeIsFollowed(t *testing.T) {
	n := onHost(t, map[string]string{"/root/secret": "s", "/var/lib/kollet/containerd/volumes/v/link": "->/root/secret"})
	err := withVolume(t, n, "{source: v, target: /v}", "config: [{source: /var/lib/kollet/containerd/volumes/v/link, dest: /a"+owned+"]", "")
	if err == nil || !strings.Contains(err.Error(), "because containers can write to "+n.State()) {
		t.Errorf("got error %v", err)
	}
}

// files of the operator, by what names them in a node file.
var operatorsFiles = map[string]struct{ at, service, top string }{
	"seccomp profile": {"/etc/kollet/file", "security_opt: ['seccomp=/etc/kollet/file']", ""},
	"secret":          {"/etc/kollet/file", "config: [{content: '{{ secret \"s\" }}', dest: /a" + owned + "]", "secrets: {s: {file: /etc/kollet/file}}"},
	"override":        {"/etc/kollet/config/one.conf", "config: [{content: '', format: ini, overrides: [one.conf], dest: /a" + owned + "]", ""},
	"template":        {"/etc/kollet/templates/one", "config: [{template: one, dest: /a" + owned + "]", ""},
}

// Others than root cannot choose a file of the host, as they cannot for a source.
func TestOperatorsFilesFollowNoPlantedLink(t *testing.T) {
	for name, c := range operatorsFiles {
		n := onHost(t, map[string]string{"/root/secret": planted["/root/secret"], c.at: "->" + strings.Repeat("../", strings.Count(c.at, "/")-1) + "root/secret"})
		if err := withVolume(t, n, "", c.service, c.top); name != "override" && err != nil { // a profile is no INI file
			t.Errorf("%s: root's link: %v", name, err)
		}
		if err := os.Lchown(n.Path(c.at), 42436, 42436); err != nil {
			t.Fatal(err)
		}
		err := withVolume(t, n, "", c.service, c.top)
		if want := n.Path(c.at) + " is a symbolic link that others than root could have put there; name what it leads to"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", name, err, want)
		}
	}
}

// They cannot have kollet wait for a FIFO, either.
func TestOperatorsFilesAreFiles(t *testing.T) {
	for name, c := range operatorsFiles {
		n := onHost(t, map[string]string{filepath.Dir(c.at) + "/": ""})
		if err := unix.Mkfifo(n.Path(c.at), 0o600); err != nil {
			t.Fatal(err)
		}
		err := withVolume(t, n, "", c.service, c.top)
		if want := n.Path(c.at) + " is a FIFO, not a regular file"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", name, err, want)
		}
	}
}
