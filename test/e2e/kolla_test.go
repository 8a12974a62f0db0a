package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/kollet/kollet/test/tiny/image"
)

// busybox is the static program of Debian's package busybox-static.
const busybox = "/bin/busybox"

// kollaScripts are what Kolla's images have around a service, as far as services can tell. Each
// fails if what it needs was not done before.
var kollaScripts = map[string]string{
	// The first process, which passes signals on.
	"dumb-init": `[ "$1 $2" = "--single-child --" ] && shift 2
"$@" &
trap 'kill -TERM $!' TERM
wait $!
wait $!`,
	"kolla_start": `[ "$(id -un)" = nova ]
sudo -E kolla_set_configs
command=$(cat /run_command)
sudo kolla_copy_cacerts
. /usr/local/bin/kolla_extend_start
exec $command`,
	// kollet-start has copied everything, so there is nothing to do. In a container of
	// kolla-ansible there is, and each entry of config.json is one line.
	"kolla_set_configs": `[ "$(id -u)" = 0 ]
if [ "$KOLLA_CONFIG_STRATEGY" = COPY_ONCE ]; then
	[ -e /configured ]
	exit
fi
[ "$KOLLA_CONFIG_STRATEGY" = COPY_ALWAYS ]
description=/var/lib/kolla/config_files/config.json
sed -n 's/.*"command": "\([^"]*\)".*/\1/p' $description >/run_command
sed -n 's/.*"source": "\([^"]*\)", "dest": "\([^"]*\)", "owner": "\([^"]*\)", "perm": "\([^"]*\)".*/\1 \2 \3 \4/p' $description |
while read -r source dest owner perm; do
	mkdir -p "${dest%/*}"
	cp "$source" "$dest"
	chown "$owner" "$dest"
	chmod "$perm" "$dest"
done
mkdir -p /etc/kolla/defaults /var/lib/nova
chown nova /var/lib/nova
touch /etc/kolla/defaults/state`,
	"kolla_copy_cacerts": `[ "$(id -u)" = 0 ]
[ -e /etc/kolla/defaults/state ]
when=staged
[ ! -e /.kollet/gate/open ] || when=started
for ca in /var/lib/kolla/share/ca-certificates/*; do
	[ -e "$ca" ] || continue
	! cmp -s "$ca" "/etc/trusted-${ca##*/}" || continue
	cp "$ca" "/etc/trusted-${ca##*/}"
	echo "$when" >>/etc/trusted
done`,
	"kolla_extend_start": `echo "$KOLLA_SERVICE_NAME" >/var/lib/nova/extended`,
	"healthcheck_answer": `[ -n "$(tiny ask "$1")" ]`,
}

// pushKolla pushes an image that is built like Kolla's: with the same entrypoint, user and
// scripts, which are this test's own.
func pushKolla(t *testing.T, p *protocol, tag string) {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatalf("%v: install the package busybox-static", err)
	}
	i := image.Image{
		Tag: tag, Links: map[string]string{},
		Files: map[string]image.File{"bin/busybox": {Content: program}, "bin/sudo": {Content: image.Program(t), SetUID: true}},
		Config: func(c *v1.Config) {
			c.Env = []string{"PATH=/usr/local/bin:/bin"}
			c.Entrypoint, c.Cmd, c.User = []string{"dumb-init", "--single-child", "--"}, []string{"kolla_start"}, "nova"
		},
	}
	applets, err := exec.Command(busybox, "--list").Output()
	check(t, err)
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			i.Links["bin/"+applet] = "busybox"
		}
	}
	for name, script := range kollaScripts {
		i.Files["usr/local/bin/"+name] = image.File{Content: []byte("#!/bin/sh -eux\n" + script + "\n")}
	}
	i.Push(t, p.registry.Addr, "test/kolla")
}

// kollaImages: an image that is built like Kolla's runs as it is, and what its scripts do before
// the service is done while it is staged, as far as that is safe.
func kollaImages(t *testing.T, p *protocol) {
	pushKolla(t, p, "v1")
	pushKolla(t, p, "v2")
	n := newNodeOn(t, p.engine)
	n.Write("/etc/kollet/ca/site.crt", "first\n")
	write := func(tag, word string) {
		n.Write("/etc/kollet/node.yaml", fmt.Sprintf(`profile: none
engine: %s
images: {registry: %s/test, tag: %s}
services:
  nova-compute:
    image: kolla
    command: [/bin/tiny, serve, "127.0.0.1:7001", /etc/nova/nova.conf]
    stop_grace_period: 20s
    config:
      - {content: %q, dest: /etc/nova/nova.conf, owner: nova, perm: "0600"}
      - {source: /etc/kollet/ca, dest: /var/lib/kolla/share/ca-certificates, owner: root, perm: "0600"}
    permissions:
      - {path: /var/lib/nova/, owner: nova, perm: "0755"}
    healthcheck: [{exec: [healthcheck_answer, "127.0.0.1:7001"], start_period: 30s, stable: 200ms, interval: 50ms}]
`, p.engine.Name, p.registry.Addr, tag, word))
	}
	runs := func(generation int, word, ca string) {
		t.Helper()
		n.Healthy(generation)
		if got := answer(t, "127.0.0.1:7001"); got != word {
			t.Errorf("generation %d answers %q, want %q", generation, got, word)
		}
		root := fmt.Sprintf("/proc/%d/root", n.Service("nova-compute").PID)
		for path, want := range map[string]string{
			"/etc/trusted-site.crt":  ca,
			"/etc/trusted":           "staged\n", // and not again when the service started
			"/var/lib/nova/extended": "nova-compute\n",
		} {
			if got, err := os.ReadFile(root + path); string(got) != want {
				t.Errorf("generation %d: %s is %q, %v; want %q", generation, path, got, err, want)
			}
		}
		n.Must(0, "verify")
	}
	write("v1", "one")
	n.Must(0, "bootstrap")
	runs(1, "one", "first\n")

	write("v2", "two")
	n.Write("/etc/kollet/ca/site.crt", "second\n")
	contains(t, n.Kollet("plan").Stdout, "/var/lib/kolla/share/ca-certificates/site.crt")
	n.Must(0, "upgrade")
	runs(2, "two", "second\n")

	n.Must(0, "rollback", "1")
	runs(3, "one", "first\n")
}
