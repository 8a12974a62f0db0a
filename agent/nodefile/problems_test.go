package nodefile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/nodefile"
)

// small is a profile with one service for every node and two networks.
const small = `
networks:
  linuxbridge: [bridge]
  openvswitch: [switch]
vars: {debug: false, host: null, extra_enabled: false}
services:
  libvirt:
    image: libvirt
    environment: {A: one, B: two}
    command: [libvirtd, -l]
    privileged: true
    volumes: [/dev:/dev, "data:/var/lib/libvirt", "/run:/run:shared"]
    ulimits: [{name: nofile, soft: 1, hard: 2}, {name: memlock, soft: 3, hard: 4}]
    config:
      - {template: a, dest: /etc/a, owner: root, perm: "0600"}
      - {template: b, dest: /etc/b, owner: root, perm: "0600"}
    healthcheck:
      - {tcp: "localhost:1", interval: 3s}
      - {tcp: "localhost:2"}
    group: virt
    guests: {list: [virsh, list], protect: false}
  compute: {image: compute, depends_on: [libvirt, bridge, switch], group: virt}
  bridge: {image: bridge}
  switch: {image: switch}
  extra: {image: extra}
switches: {extra: extra_enabled}
`

func profiles(name string) ([]byte, error) {
	if name != "compute" {
		return nil, fmt.Errorf("there is no profile %q", name)
	}
	return []byte(small), nil
}

func parse(text string) (*nodefile.Node, error) {
	return nodefile.Parse("node.yaml", []byte(text), profiles, nodefile.Change{})
}

// own is a node file without a profile, with one service that has these fields.
func own(fields string) string {
	return "profile: none\nservices:\n  one:\n    image: a:1\n    " + strings.ReplaceAll(fields, "\n", "\n    ") + "\n"
}

func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string // the beginning of each line, in order
	}{
		"empty":           {"", []string{"node.yaml: the file is empty; write what this node should run (see `kollet help node-file`)"}},
		"comments alone":  {"# nothing\n", []string{"node.yaml: the file is empty"}},
		"null":            {"---\n~\n", []string{"node.yaml: the file is empty"}},
		"a list":          {"- a\n", []string{"node.yaml:1:1: expected a mapping, got a list"}},
		"a word":          {"compute\n", []string{`node.yaml:1:1: expected a mapping, got "compute"`}},
		"two documents":   {"keep_generations: 2\n---\nkeep_generations: 3\n", []string{"node.yaml:2:1: a second document begins here; "}},
		"bad second":      {"keep_generations: 2\n---\n[\n", []string{"node.yaml:"}},
		"tab":             {"services:\n\tone: {}\n", []string{"node.yaml:2:1: not valid YAML: found character that cannot start any token; indent with spaces instead of tabs, and quote text that begins with @, ` or %"}},
		"not UTF-8":       {"keep_generations: \xff\xfe\n", []string{"node.yaml: not valid YAML: "}},
		"control":         {"keep_generations: \x01\n", []string{"node.yaml: not valid YAML: control characters are not allowed"}},
		"unknown":         {"engin: docker\n", []string{"node.yaml:1:1: engin: unknown key; did you mean engine?"}},
		"unknown, far":    {"xyz: 1\n", []string{"node.yaml:1:1: xyz: unknown key"}},
		"unknown below":   {own("healthcheck:\n- {tcp: 'a:1', intervall: 2s}"), []string{"node.yaml:6:20: services.one.healthcheck[0].intervall: unknown key; did you mean interval?"}},
		"unknown, prefix": {own("health: []"), []string{"node.yaml:5:5: services.one.health: unknown key; did you mean healthcheck?"}},
		"known elsewhere": {own("after: [two]\nmounts: []\nhealthcheck: [{tcp: 'a:1', within: 2s}]"), []string{
			"node.yaml:5:5: services.one.after: unknown key; did you mean depends_on?",
			"node.yaml:6:5: services.one.mounts: unknown key; did you mean volumes?",
			"node.yaml:7:32: services.one.healthcheck[0].within: unknown key; did you mean start_period?",
		}},
		"elsewhere alone": {own("periodSeconds: 1"), []string{"node.yaml:5:5: services.one.periodSeconds: unknown key"}},
		"switched off":    {"images: {tag: v1}\nservices:\n  extra: {user: root}\n", []string{"node.yaml:3:3: services.extra: this service is switched off; set vars.extra_enabled: true, or remove its settings"}},
		"no switch":       {"images: {tag: v1}\nvars: {extra_enabled: 'on'}\nservices:\n  extra: {user: root}\n", []string{`node.yaml:2:8: vars.extra_enabled: expected true or false without quotes, got "on"`}},
		"group of one": {"profile: none\nservices:\n  aa: {image: 'a:1', group: pair}\n  bb: {image: 'a:1', group: pair}\n  cc: {image: 'a:1', group: piar}\n  dd: {image: 'a:1', group: other}\n", []string{
			`node.yaml:5:22: services.cc.group: no other service is in group "piar"; did you mean pair?`,
			`node.yaml:6:22: services.dd.group: no other service is in group "other"`,
		}},
		"twice":           {"keep_generations: 2\nengine: docker\nkeep_generations: 3\n", []string{"node.yaml:3:1: keep_generations: duplicate key; it is already set on line 1"}},
		"twice in vars":   {"vars:\n  a: {b: 1, b: 2}\n", []string{"node.yaml:2:13: vars.a.b: duplicate key; it is already set on line 2"}},
		"twice, quoted":   {own("user: a\n\"user\": b"), []string{"node.yaml:6:5: services.one.user: duplicate key"}},
		"service twice":   {"services:\n  a: {}\n  a: {}\n", []string{"node.yaml:3:3: services.a: duplicate key"}},
		"merge key":       {"vars: &v {a: 1}\nservices: {<<: *v}\n", []string{"node.yaml:2:12: services.<<: merge keys are not supported"}},
		"null key":        {"services: {~: {image: a}}\n", []string{"node.yaml:1:12: services: expected text as key"}},
		"mapping as key":  {"vars:\n  ? {a: 1}\n  : 2\n", []string{"node.yaml:2:5: vars: expected text as key"}},
		"alias as key":    {"profile: &image none\n*image : 1\n", []string{"node.yaml:2:1: a key cannot be an alias; write it out instead of *image"}},
		"word for number": {"keep_generations: many\n", []string{`node.yaml:1:19: keep_generations: expected a whole number, got "many"`}},
		"huge number":     {"keep_generations: 99999999999999999999\n", []string{`node.yaml:1:19: keep_generations: expected a whole number`}},
		"fraction":        {"keep_generations: 1.5\n", []string{`node.yaml:1:19: keep_generations: expected a whole number, got "1.5"`}},
		"word for bool":   {own("privileged: maybe"), []string{`node.yaml:5:17: services.one.privileged: expected true or false, got "maybe"`}},
		"list for text":   {own("user: [a]"), []string{`node.yaml:5:11: services.one.user: expected a single value, got a list`}},
		"text for list":   {own("command: ls -l"), []string{`node.yaml:5:14: services.one.command: expected a list, got "ls -l"`}},
		"text for map":    {own("environment: A=b"), []string{`node.yaml:5:18: services.one.environment: expected a mapping, got "A=b"`}},
		"empty entry":     {own("command: [a, ~]"), []string{"node.yaml:5:18: services.one.command[1]: an empty entry; drop it"}},
		"empty mount":     {own("volumes:\n-\n- a:/b"), []string{"node.yaml:6:6: services.one.volumes[0]: an empty entry"}},
		"empty variable":  {own("environment: {A: }"), []string{`node.yaml:5:22: services.one.environment.A: expected text; write "" for an empty one`}},
		"no unit":         {own("stop_grace_period: 5"), []string{`node.yaml:5:24: services.one.stop_grace_period: expected a duration with its unit, such as 2s or 1m30s, got "5"`}},
		"zero, no unit":   {own("stop_grace_period: 0"), []string{`node.yaml:5:24: services.one.stop_grace_period: expected a duration with its unit`}},
		"minus zero":      {own("stop_grace_period: -0"), []string{`node.yaml:5:24: services.one.stop_grace_period: expected a duration with its unit`}},
		"negative":        {own("stop_grace_period: -2s"), []string{`node.yaml:5:24: services.one.stop_grace_period: expected a duration with its unit`}},
		"list for time":   {own("stop_grace_period: [2s]"), []string{`node.yaml:5:24: services.one.stop_grace_period: expected a duration with its unit`}},
		"no such signal":  {own("stop_signal: 99"), []string{`node.yaml:5:5: services.one.stop_signal: expected a signal such as SIGTERM or 15, got "99"`}},
		"never tried":     {own("healthcheck: [{tcp: 'a:1', interval: 0s}]"), []string{"node.yaml:5:19: services.one.healthcheck[0]: interval, start_period and timeout must be more than zero"}},
		"guests in a namespace": {own("guests: {list: [ls]}"), []string{
			"node.yaml:5:5: services.one.guests: in a private PID namespace guests die with the service; set pid: host, or guests.protect: false",
		}},
		"canary of nothing": {own("guests:\n  protect: false\n  list: [ls]\n  canary: {enabled: true, start: [a], expect: b, timeout: 0s}"), []string{
			"node.yaml:8:7: services.one.guests.canary: output is missing: the canary needs start, output, expect and stop",
			"node.yaml:8:7: services.one.guests.canary: stop is missing",
			"node.yaml:8:54: services.one.guests.canary.timeout: expected more than zero, got 0s",
		}},
		"cycle of alias":  {"vars: &v {a: *v}\n", []string{"node.yaml: not valid YAML: anchor 'v' value contains itself"}},
		"alias of nobody": {"vars: *v\n", []string{"node.yaml: not valid YAML: unknown anchor 'v' referenced"}},
		"wrong tag":       {"keep_generations: !!int x\n", []string{"node.yaml: not valid YAML: cannot decode !!str `x` as a !!int"}},
		"bad mount": {own("volumes: ['a:b:c:d', 'data:lib', ':/data', '/a:/b:rx', 'lib']"), []string{
			`node.yaml:5:15: services.one.volumes[0]: expected SOURCE:TARGET[:OPTIONS], got "a:b:c:d"`,
			`node.yaml:5:26: services.one.volumes[1]: expected SOURCE:TARGET[:OPTIONS] with a source and an absolute target, got "data:lib"`,
			`node.yaml:5:38: services.one.volumes[2]: expected SOURCE:TARGET[:OPTIONS] with a source and an absolute target, got ":/data"`,
			`node.yaml:5:48: services.one.volumes[3]: unknown mount option "rx" in "/a:/b:rx"; expected ro, rw or one of private`,
			`node.yaml:5:60: services.one.volumes[4]: expected SOURCE:TARGET[:OPTIONS] with a source and an absolute target, got "lib"`,
		}},
		"archives": {"profile: none\nimages:\n  archives:\n  - /media/*.tar\n  - images.tar\n  - '/a[b'\n  - {a: b}\nservices:\n  one: {image: 'a:1'}\n", []string{
			"node.yaml:7:5: images.archives[3]: expected a single value, got a mapping",
		}},
		"archives' paths": {"profile: none\nimages: {archives: [/media/*.tar, images.tar, '/a[b']}\nservices:\n  one: {image: 'a:1'}\n", []string{
			`node.yaml:2:35: images.archives[1]: expected an absolute path, or a pattern such as /media/images/*.tar, got "images.tar"`,
			`node.yaml:2:47: images.archives[2]: expected an absolute path, or a pattern such as /media/images/*.tar, got "/a[b"`,
		}},
		"all kinds at once": {"profile: none\nengine: rkt\nkeep_generations: 0\nimages: {pull_policy: often}\nsecrets: {s: {}, u: {file: a, env: B}, v: {credential: ../a}}\nservices:\n  One: {image: 'a:1'}\n  x: {image: 'a:1'}\n  kollet-start: {image: 'a:1'}\n", []string{
			`node.yaml:2:1: engine: expected one of docker, containerd, podman, got "rkt"`,
			"node.yaml:3:1: keep_generations: expected 1 or more: a rollback needs an earlier generation",
			`node.yaml:4:10: images.pull_policy: expected one of missing, always, never, got "often"`,
			"node.yaml:5:11: secrets.s: expected exactly one of file, env and credential",
			"node.yaml:5:18: secrets.u: expected exactly one of file, env and credential",
			`node.yaml:5:40: secrets.v: credential: expected a name as in LoadCredential=NAME:PATH of a unit, got "../a"`,
			"node.yaml:7:3: services.One: a service name has two or more characters of a-z",
			"node.yaml:8:3: services.x: a service name has two or more characters of a-z",
			"node.yaml:9:3: services.kollet-start: this name is reserved",
		}},
		"a service": {own("pid: hots\nipc: x\ncgroup: x\nnetwork_mode: bridge\nrestart: on-failure\nlog_size: big\nstop_signal: SIGTREM\ndepends_on: [tow]\ngroup: none\nguests: {}"), []string{
			`node.yaml:5:5: services.one.pid: expected one of host, private, got "hots"`,
			`node.yaml:6:5: services.one.ipc: expected one of host, private, got "x"`,
			`node.yaml:7:5: services.one.cgroup: expected one of host, private, got "x"`,
			`node.yaml:8:5: services.one.network_mode: expected one of host, none, private, got "bridge"`,
			`node.yaml:9:5: services.one.restart: expected one of always, unless-stopped, no, got "on-failure"`,
			`node.yaml:10:5: services.one.log_size: expected a size such as 10MiB, got "big"`,
			`node.yaml:11:5: services.one.stop_signal: expected a signal such as SIGTERM or 15, got "SIGTREM"`,
			`node.yaml:12:5: services.one.depends_on: this node has no service "tow"`,
			`node.yaml:13:5: services.one.group: no other service is in group "none"`,
			`node.yaml:14:5: services.one.guests: list is missing: the command that prints the UUIDs of running guests`,
		}},
		"preload": {own("replace_with_dependencies: true\npreload: {modules: [a.*, -c, 'a b', 1x, nova.]}"), []string{
			`node.yaml:5:5: services.one.replace_with_dependencies: the service has no depends_on`,
			`node.yaml:6:15: services.one.preload.modules: nothing imports them; set python: true`,
			`node.yaml:6:30: services.one.preload.modules[1]: expected the name of a Python module, such as nova.virt.libvirt.driver, got "-c"`,
			`node.yaml:6:34: services.one.preload.modules[2]: expected the name of a Python module`,
			`node.yaml:6:41: services.one.preload.modules[3]: expected the name of a Python module`,
			`node.yaml:6:45: services.one.preload.modules[4]: expected the name of a Python module`,
		}},
		"preload, types": {own("preload: [python]"), []string{"node.yaml:5:14: services.one.preload: expected a mapping"}},
		"entries": {own("volumes:\n- {target: data}\n- {source: vol, target: /t, propagation: shared}\n- {source: /s, target: /u, propagation: up}\nconfig:\n- {dest: etc, owner: a, perm: '0600', content: x}\n- {dest: /etc/, owner: a, perm: '0600', content: x}\n- {dest: /a, perm: '0600', content: x, source: y}\n- {dest: /b, owner: a, perm: '0600', content: x, format: yml}\nhealthcheck:\n- {tcp: 'a:1', unix: /x}\n- {interval: 1s}"), []string{
			`node.yaml:6:7: services.one.volumes[0].target: expected an absolute path, got "data"`,
			`node.yaml:7:7: services.one.volumes[1].propagation: only a path on the host can have a propagation, and "vol" is not one`,
			`node.yaml:8:7: services.one.volumes[2].propagation: expected one of private`,
			`node.yaml:10:7: services.one.config[0].dest: expected the absolute path of a file in the container, got "etc"`,
			`node.yaml:11:7: services.one.config[1].dest: expected the absolute path`,
			`node.yaml:12:7: services.one.config[2]: expected exactly one of template, source and content`,
			`node.yaml:12:7: services.one.config[2].source: expected an absolute path on the host, got "y"`,
			`node.yaml:12:7: services.one.config[2]: owner and perm are required`,
			`node.yaml:13:7: services.one.config[3].format: expected ini or text, got "yml"`,
			`node.yaml:15:7: services.one.healthcheck[0]: expected exactly one of exec, tcp, unix, http, amqp and ovsdb`,
			`node.yaml:16:7: services.one.healthcheck[1]: expected exactly one of exec, tcp, unix, http, amqp and ovsdb`,
		}},
		"security": {own("security_opt: [no-new-privileges, 'apparmor:x', seccomp=/p.json, seccomp=p.json]"), []string{
			`node.yaml:5:70: services.one.security_opt[3]: expected seccomp=unconfined, or the absolute path of a profile on the host, got "seccomp=p.json"`,
		}},
		"labels":           {own("security_opt: ['label=type:x']"), []string{`node.yaml:5:20: services.one.security_opt[0]: labels of SELinux are not supported, got "label=type:x"; remove it`}},
		"no privileges":    {own("security_opt: [no-new-privileges=maybe]"), []string{`node.yaml:5:20: services.one.security_opt[0]: expected no-new-privileges, seccomp=… or apparmor=…, got "no-new-privileges=maybe"`}},
		"unknown security": {own("security_opt: [apparmor]"), []string{`node.yaml:5:20: services.one.security_opt[0]: expected no-new-privileges`}},
		"tmpfs": {own("volumes:\n- {target: /a, size: 64m, mode: '1777'}\n- {target: /b, size: big, mode: '755'}\n- {target: /c, source: /c, size: 1m}\n- {target: /d, size: 0}"), []string{
			`node.yaml:7:7: services.one.volumes[1].size: expected a size such as 64m, got "big"`,
			`node.yaml:7:7: services.one.volumes[1].mode: expected four octal digits, such as "0755", got "755"`,
			`node.yaml:8:7: services.one.volumes[2]: only a tmpfs, which has no source, has a size and a mode`,
			`node.yaml:9:7: services.one.volumes[3].size: expected a size such as 64m, got "0"`,
		}},
		"sources": {own("config:\n- {dest: /a, source: /s/*, owner: a, perm: '0600'}\n- {dest: /b, source: '/s/[', owner: a, perm: '0600'}\n- {dest: /c, source: /s, owner: a, preserve_properties: true}\n- {dest: /d, source: /s}\n- {dest: /e, content: '', owner: a, perm: '0600', merge: true}\n- {dest: /f, owner: a, perm: '0600', content: }\n- {dest: /g/, source: /t/x, preserve_properties: true}\n- {dest: /g, source: /u/x, preserve_properties: true}\n- {dest: /g/x, source: /v, preserve_properties: true}\n- {dest: /h, source: /s, overrides: [a], preserve_properties: true}"), []string{
			"node.yaml:6:7: services.one.config[0].dest: a pattern can match several files; expected a directory to copy them into, such as /a/",
			"node.yaml:7:7: services.one.config[1].source: \"/s/[\" is not a pattern: a [ has no ]; write [[] for it",
			"node.yaml:7:7: services.one.config[1].dest: a pattern can match several files",
			"node.yaml:8:7: services.one.config[2]: preserve_properties keeps the owner and mode of the source; remove owner and perm",
			"node.yaml:9:7: services.one.config[3]: owner and perm are required",
			"node.yaml:10:7: services.one.config[4]: merge and preserve_properties are about what a source has; this file has none",
			"node.yaml:11:7: services.one.config[5]: expected exactly one of template, source and content",
			"node.yaml:14:7: services.one.config[8]: /g/x is set twice in this list, first on line 12; remove one",
			"node.yaml:15:7: services.one.config[9].overrides: a source is copied unchanged and has no overrides",
		}},
		"permissions": {own("permissions:\n- {path: /a, owner: nova}\n- {path: /a/, owner: nova}\n- {path: /a, perm: '0600'}\n- {path: /a, owner: nova, exclude: [x]}\n- {path: /a, owner: nova, recurse: true, exclude: [x, '(?=x)']}"), []string{
			`node.yaml:7:7: services.one.permissions[1].perm: expected four octal digits, such as "0600", got ""`,
			`node.yaml:8:7: services.one.permissions[2].owner: expected a user or user:group of the image, by name, got ""`,
			`node.yaml:9:31: services.one.permissions[3].exclude: it does nothing without recurse; set recurse: true, or remove it`,
			"node.yaml:10:59: services.one.permissions[4].exclude[1]: error parsing regexp: invalid or unsupported Perl syntax: `(?=`",
		}},
		"kollet's own": {own("working_dir: /.kollet/gate/open\nvolumes:\n- /.kollet\n- {source: /f, target: /.kollet/gate/open}\n- 'data:/x/../.kollet/start/'\n- {source: /f, target: /var/lib/kolla/config_files/config.json}\n- data:/.kollett\nconfig:\n- {content: x, dest: /.kollet/gate/open, owner: a, perm: '0600'}\n- {source: /d, dest: /.kollet/gate, merge: true, owner: a, perm: '0600'}\n- {source: /d/.kollet, dest: //, preserve_properties: true}\n- {source: /d, dest: /var/lib/kolla/config_files/, owner: a, perm: '0600'}\n- {source: /d, dest: /var/lib/kolla/, owner: a, perm: '0600'}\npermissions:\n- {path: /.kollet/gate, owner: a}\n- {path: '/.[!a]*/gate', owner: a}\n- {path: /., owner: a, recurse: true}\n- {path: /., owner: a}\n- {path: '/*', owner: a}\n- {path: /.kollet/gate/x/, owner: a, perm: '0700'}"), []string{
			`node.yaml:5:5: services.one.working_dir: /.kollet is kollet's own in every container; expected a path outside of it, got "/.kollet/gate/open"`,
			`node.yaml:7:7: services.one.volumes[0].target: /.kollet is kollet's own`,
			`node.yaml:8:7: services.one.volumes[1].target: /.kollet is kollet's own`,
			`node.yaml:9:7: services.one.volumes[2].target: /.kollet is kollet's own`,
			`node.yaml:10:7: services.one.volumes[3].target: /var/lib/kolla/config_files is kollet's own`,
			`node.yaml:13:7: services.one.config[0].dest: /.kollet is kollet's own in every container; expected a path outside of it, got "/.kollet/gate/open"`,
			`node.yaml:14:7: services.one.config[1].dest: /.kollet is kollet's own`,
			`node.yaml:15:7: services.one.config[2].dest: /.kollet is kollet's own`,
			`node.yaml:16:7: services.one.config[3].dest: /var/lib/kolla/config_files is kollet's own`,
			`node.yaml:19:8: services.one.permissions[0].path: /.kollet is kollet's own`,
			`node.yaml:20:8: services.one.permissions[1].path: /.kollet is kollet's own`,
			`node.yaml:21:8: services.one.permissions[2].path: /.kollet is kollet's own`,
			`node.yaml:24:8: services.one.permissions[5].path: /.kollet is kollet's own`,
		}},
		"engine_healthcheck": {own("engine_healthcheck: {test: [NONE], interval: 1ms}"), []string{
			`node.yaml:5:5: services.one.engine_healthcheck: test: expected a program and its arguments, such as [healthcheck_port, nova-compute, "5672"], got ["NONE"]`,
		}},
		"engine_healthcheck of nothing": {own("engine_healthcheck: {retries: 2}"), []string{
			"node.yaml:5:5: services.one.engine_healthcheck: test: expected a command",
		}},
		"engine_healthcheck without Docker": {"engine: containerd\n" + own("engine_healthcheck: {test: [\"true\"]}"), []string{
			"node.yaml:6:5: services.one.engine_healthcheck: containerd: a service can have one only on Docker; remove engine_healthcheck, and use healthcheck, which kollet itself runs",
		}},
		"requires": {own("requires:\n- {tcp: 'a:1', amqp: 'amqp://a'}\n- {tcp: 'a:1', stable: 2s}\n- {tcp: 'a:1', ca_file: /ca}\n- {tcp: 'a:1', timeout: 0s}\n- {tcp: 'a:1', intervall: 1s}"), []string{
			"node.yaml:10:20: services.one.requires[4].intervall: unknown key; did you mean interval?",
		}},
		"values of requires": {own("requires:\n- {tcp: 'a:1', amqp: 'amqp://a'}\n- {tcp: 'a:1', stable: 2s}\n- {tcp: 'a:1', ca_file: /ca}\n- {tcp: 'a:1', timeout: 0s}"), []string{
			"node.yaml:6:7: services.one.requires[0]: expected exactly one of exec, tcp, unix, http, amqp and ovsdb",
			"node.yaml:7:7: services.one.requires[1].stable: what a service requires only has to succeed once; remove stable",
			"node.yaml:8:7: services.one.requires[2].ca_file: only probes of the types http and amqp use TLS",
			"node.yaml:9:7: services.one.requires[3]: interval, start_period and timeout must be more than zero",
		}},
		"lists with a double": {own("volumes: ['a:/x', 'b:/x/']\nulimits: [{name: nofile}, {name: nofile}]\nconfig:\n- {dest: /a, owner: a, perm: '0600', content: x}\n- {dest: /a, owner: b, perm: '0600', content: y}"), []string{
			"node.yaml:5:23: services.one.volumes[1]: /x is set twice in this list, first on line 5; remove one",
			"node.yaml:6:31: services.one.ulimits[1]: nofile is set twice",
			"node.yaml:9:7: services.one.config[1]: /a is set twice in this list, first on line 8",
		}},
		"images": {"profile: none\nservices:\n  aa: {}\n  bb: {image: 'A:1'}\n  cc: {image: name}\n  dd: {image: 'name@'}\n", []string{
			"node.yaml:3:3: services.aa.image: no image; set it, or remove the service",
			`node.yaml:4:8: services.bb.image: "A:1" is not an image reference: `,
			`node.yaml:5:8: services.cc.image: "name" has neither tag nor digest; set images.tag, or write NAME:TAG`,
			`node.yaml:6:8: services.dd.image: "name@" is not an image reference: `,
		}},
		"no services":         {"profile: none\n", []string{"node.yaml: services: the node has no services"}},
		"no such profile":     {"profile: storage\n", []string{`node.yaml:1:1: profile: there is no profile "storage"`}},
		"switches":            {"images: {tag: a}\nvars: {debug: no, host: no}\n", []string{`node.yaml:2:8: vars.debug: expected true or false without quotes, got "no"`}},
		"quoted switch":       {"images: {tag: a}\nvars: {debug: 'false'}\n", []string{`node.yaml:2:8: vars.debug: expected true or false without quotes, got "false"`}},
		"registry as a URL":   {"images: {registry: 'https://r:5000/kolla', tag: a}\n", []string{"node.yaml:1:10: images.registry: expected HOST[:PORT][/PATH], such as r:5000/kolla, without https://"}},
		"no such network":     {"images: {tag: a}\nnetwork: ovs\n", []string{`node.yaml:2:1: network: profile compute has no network "ovs"; expected one of linuxbridge, openvswitch`}},
		"the profile's place": {"services: {}\n", []string{`profile compute:8:5: services.libvirt.image: "libvirt" has neither tag nor digest`, `profile compute:22:13: services.compute.image`, `profile compute:23:12: services.bridge.image`}},
		"cycle": {"profile: none\nservices:\n  aa: {image: 'a:1', depends_on: [bb]}\n  bb: {image: 'a:1', depends_on: [cc]}\n  cc: {image: 'a:1', depends_on: [bb]}\n", []string{
			"node.yaml:4:22: services.bb.depends_on: the start order has a cycle: bb depends on cc depends on bb; remove one of these dependencies"}},
		"cycle of one": {own("depends_on: [one]"), []string{"node.yaml:5:5: services.one.depends_on: the start order has a cycle: one depends on one"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(c.text)
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(c.want) {
				t.Fatalf("got %d problems, want %d:\n%v", len(got), len(c.want), err)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("got  %s\nwant %s", got[i], c.want[i])
				}
			}
		})
	}
}

// What is no file has no end, or never begins.
func TestLoadNoFile(t *testing.T) {
	fifo, large := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "large")
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.WriteFile(large, nil, 0o600), os.Truncate(large, 1<<40)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/dev/zero": " is a device, not a regular file",
		fifo:        " is a FIFO, not a regular file",
		large:       " is larger than 16 MiB",
	} {
		_, err := nodefile.Load(path, profiles, nodefile.Change{})
		if err == nil || err.Error() != "read the node file: "+path+want+"; give the path of the node file with --node-file" {
			t.Error(err)
		}
		if got := nodefile.Engine(path); got != "docker" {
			t.Errorf("engine %q", got)
		}
	}
}

// A shell gives a command a pipe with another's output.
func TestLoadPipe(t *testing.T) {
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		from, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		if _, err := to.WriteString(own("user: nova")); err != nil {
			t.Fatal(err)
		}
		to.Close()
		n, err := nodefile.Load(dir+strconv.Itoa(int(from.Fd())), profiles, nodefile.Change{})
		if err != nil || n.Services["one"].User != "nova" {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestLoadWithoutFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.yaml")
	_, err := nodefile.Load(path, profiles, nodefile.Change{})
	if want := path + ": no node file; write one"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s…", err, want)
	}
	if _, err := nodefile.Load(t.TempDir(), profiles, nodefile.Change{}); err == nil || !strings.HasPrefix(err.Error(), "read the node file: ") {
		t.Errorf("a directory: %v", err)
	}
	if err := os.WriteFile(path, []byte(own("user: nova")), 0o600); err != nil {
		t.Fatal(err)
	}
	node, err := nodefile.Load(path, profiles, nodefile.Change{})
	if err != nil || node.Services["one"].User != "nova" {
		t.Errorf("got %+v, %v", node, err)
	}
}
