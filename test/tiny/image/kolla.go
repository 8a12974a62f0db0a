package image

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// busybox is the static program of Debian's package busybox-static.
const busybox = "/bin/busybox"

// SetConfigs are the lines of a shell's script that do what Kolla's config.json says, each entry of
// which is one line.
const SetConfigs = `description=/var/lib/kolla/config_files/config.json
sed -n 's/.*"command": "\([^"]*\)".*/\1/p' $description >/run_command
sed -n 's/.*"source": "\([^"]*\)", "dest": "\([^"]*\)", "owner": "\([^"]*\)", "perm": "\([^"]*\)".*/\1 \2 \3 \4/p' $description |
while read -r source dest owner perm; do
	mkdir -p "${dest%/*}"
	cp "$source" "$dest"
	chown "$owner" "$dest"
	chmod "$perm" "$dest"
done
`

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
	// kolla-ansible there is.
	"kolla_set_configs": `[ "$(id -u)" = 0 ]
if [ "$KOLLA_CONFIG_STRATEGY" = COPY_ONCE ]; then
	[ -e /configured ]
	exit
fi
[ "$KOLLA_CONFIG_STRATEGY" = COPY_ALWAYS ]
` + SetConfigs + `mkdir -p /etc/kolla/defaults /var/lib/nova
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

// Kolla returns an image that is built like Kolla's: with the same entrypoint, user and scripts,
// which are this package's own.
func Kolla(t testing.TB, tag string) Image {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatalf("%v: install the package busybox-static", err)
	}
	i := Image{
		Tag: tag, Links: map[string]string{},
		Files: map[string]File{"bin/busybox": {Content: program}, "bin/sudo": {Content: Program(t), SetUID: true}},
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
		i.Files["usr/local/bin/"+name] = File{Content: []byte("#!/bin/sh -eux\n" + script + "\n")}
	}
	return i
}
