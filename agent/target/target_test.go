package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/containers"
)

func TestApplyImage(t *testing.T) {
	kolla := containers.Image{ID: "i", Digest: "d", Entrypoint: []string{"dumb-init", "--single-child", "--"}, Command: []string{"kolla_start"}, User: "nova"}
	plain := containers.Image{ID: "i", Entrypoint: []string{"/entry"}, Command: []string{"serve"}, StopSignal: "SIGQUIT"}
	bare := containers.Image{ID: "i"}
	for name, c := range map[string]struct {
		image               containers.Image
		entrypoint, command []string
		argv, told          string
	}{
		"kolla":                  {kolla, nil, []string{"nova-compute", "-v"}, "dumb-init --single-child -- kolla_start", "nova-compute -v"},
		"kolla, without":         {kolla, nil, nil, "dumb-init --single-child -- kolla_start", ""},
		"kolla, own entrypoint":  {kolla, []string{"nova-compute"}, []string{"-v"}, "nova-compute -v", ""},
		"kolla, its entrypoint":  {kolla, []string{"dumb-init", "--", "kolla_start"}, []string{"nova-compute"}, "dumb-init -- kolla_start", "nova-compute"},
		"kolla, no entrypoint":   {containers.Image{Command: []string{"kolla_start"}}, nil, []string{"a"}, "kolla_start", "a"},
		"as the image has it":    {plain, nil, nil, "/entry serve", ""},
		"command":                {plain, nil, []string{"check"}, "/entry check", ""},
		"entrypoint drops both":  {plain, []string{"/other"}, nil, "/other", ""},
		"both":                   {plain, []string{"/other"}, []string{"x"}, "/other x", ""},
		"image without":          {bare, nil, []string{"x"}, "x", ""},
		"nothing":                {bare, nil, nil, "", ""},
		"kolla_start among more": {containers.Image{Command: []string{"bash", "kolla_start"}}, nil, []string{"x"}, "x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := generation.Service{Argv: []string{"old"}, Command: []string{"old"}, Spec: containers.Spec{Entrypoint: c.entrypoint, Command: c.command}}
			applyImage(&s, c.image)
			if strings.Join(s.Argv, " ") != c.argv || strings.Join(s.Command, " ") != c.told || s.Image.ID != c.image.ID || s.Image.Digest != c.image.Digest {
				t.Errorf("got %q, told %q, %+v", s.Argv, s.Command, s.Image)
			}
			again := s
			applyImage(&again, c.image)
			if !slices.Equal(again.Argv, s.Argv) || !slices.Equal(again.Command, s.Command) || again.Fingerprint() != s.Fingerprint() {
				t.Errorf("bound again: %q, %q", again.Argv, again.Command)
			}
		})
	}
	for name, c := range map[string]struct{ spec, image, user, signal string }{
		"image's":   {"", "SIGQUIT", "nova", "SIGQUIT"},
		"own":       {"SIGINT", "SIGQUIT", "root", "SIGINT"},
		"neither's": {"", "", "", "SIGTERM"},
	} {
		s := generation.Service{Spec: containers.Spec{StopSignal: c.spec}}
		if c.spec != "" {
			s.Spec.User = c.user
		}
		applyImage(&s, containers.Image{StopSignal: c.image, User: map[bool]string{true: "other", false: c.user}[c.spec != ""]})
		if s.User != c.user || s.StopSignal != c.signal {
			t.Errorf("%s: user %q, signal %s", name, s.User, s.StopSignal)
		}
	}
}

func TestDescribe(t *testing.T) {
	s := generation.Service{Name: "nova", Argv: []string{"dumb-init", "kolla_start"}, Command: []string{"nova-compute"}, Spec: containers.Spec{}}
	data, err := node.KollaConfig(s)
	var got struct{ Command string }
	if err != nil || json.Unmarshal(data, &got) != nil || got.Command != "nova-compute" {
		t.Errorf("got %s, %v", data, err)
	}
	s.Command = nil // kolla_start would execute itself forever
	if _, err := node.KollaConfig(s); err == nil || !strings.HasSuffix(err.Error(), "set services.nova.command") {
		t.Errorf("got %v", err)
	}
	s.Argv = []string{"nova-compute", "-v"}
	if data, err := node.KollaConfig(s); err != nil || json.Unmarshal(data, &got) != nil || got.Command != "nova-compute -v" {
		t.Errorf("got %s, %v", data, err)
	}
}

func TestDescribePermissions(t *testing.T) {
	s := generation.Service{Name: "nova", Argv: []string{"nova-compute"}, Permissions: []nodefile.Permission{
		{Path: "/var/lib/nova", Owner: "nova", Recurse: true, Exclude: []string{"/instances/"}},
		{Path: "/var/log/kolla/", Owner: "nova:kolla", Perm: "2775"},
	}}
	data, err := node.KollaConfig(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "command": "nova-compute",
  "directories": [
    {
      "path": "/var/log/kolla",
      "owner": "nova:kolla",
      "perm": "2775"
    }
  ],
  "permissions": [
    {
      "path": "/var/lib/nova",
      "owner": "nova",
      "recurse": true,
      "exclude": [
        "/instances/"
      ]
    }
  ]
}
`
	if string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
}

func TestSecurity(t *testing.T) {
	n := onHost(t, map[string]string{"/etc/p.json": "{ \"defaultAction\": \"SCMP_ACT_ALLOW\" }\n", "/etc/empty.json": "{}", "/etc/text.json": "x", "/etc/action.json": `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"], "action": "ERRNO"}]}`})
	if err := unix.Mkfifo(n.Path("/etc/fifo.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readConfig(t, n, "{content: x, dest: /a"+owned+"\n    security_opt: [apparmor=mine]"); err == nil || !strings.Contains(err.Error(), "node.yaml:7:5: services.one.security_opt: apparmor=mine: the kernel of this host has no AppArmor") {
		t.Errorf("without AppArmor: %v", err)
	}
	n.Host.Sys = n.Path("/sys")
	for file, content := range map[string]string{"module/apparmor/parameters/enabled": "Y\n", "kernel/security/apparmor/profiles": "mine (enforce)\n"} {
		at := filepath.Join(n.Host.Sys, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readConfig(t, n, "{content: x, dest: /a"+owned+"\n    security_opt: [apparmor=their]"); err == nil || !strings.Contains(err.Error(), "apparmor=their: this profile is not loaded; load it") {
		t.Errorf("a profile that is not loaded: %v", err)
	}
	for option, want := range map[string]containers.Security{
		"apparmor=docker-default":                    {AppArmor: "docker-default"},
		"no-new-privileges, seccomp=unconfined":      {NoNewPrivileges: true, Seccomp: "unconfined"},
		"'no-new-privileges:false', 'apparmor:mine'": {AppArmor: "mine"},
		"seccomp=/etc/p.json, apparmor=unconfined":   {Seccomp: `{"defaultAction":"SCMP_ACT_ALLOW"}`, AppArmor: "unconfined"},
		"seccomp=/etc/gone.json, seccomp=unconfined": {Seccomp: "unconfined"},
		"seccomp=unconfined, 'seccomp=/etc/p.json'":  {Seccomp: `{"defaultAction":"SCMP_ACT_ALLOW"}`},
	} {
		target, err := readConfig(t, n, "{content: x, dest: /a"+owned+"\n    security_opt: ["+option+"]")
		if err != nil {
			t.Errorf("%s: %v", option, err)
		} else if got := target.Services[0].Spec.Security; got != want {
			t.Errorf("%s: got %+v, want %+v", option, got, want)
		}
	}
	for file, want := range map[string]string{
		"/etc/gone.json":   ": services.one.security_opt: the seccomp profile cannot be read: open " + n.Path("/etc/gone.json") + ": no such file or directory; write it",
		"/etc/fifo.json":   ": services.one.security_opt: the seccomp profile cannot be read: " + n.Path("/etc/fifo.json") + " is a FIFO, not a regular file; write it",
		"/etc/text.json":   ": services.one.security_opt: seccomp profile /etc/text.json: invalid character 'x'",
		"/etc/action.json": `: services.one: security_opt: seccomp profile: syscalls[0].action: expected SCMP_ACT_KILL, `,
		"/etc/empty.json":  ": services.one: security_opt: seccomp profile: it has no defaultAction",
	} {
		_, err := readConfig(t, n, "{content: x, dest: /a"+owned+"\n    security_opt: [seccomp="+file+"]")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "node.yaml:") {
			t.Errorf("%s: got %v, want %s", file, err, want)
		}
	}
}

// Exit statuses depend on an error's kind.
func TestRedactKeepsTheKind(t *testing.T) {
	target := &Target{Redactor: redact.New(map[string]string{"rabbit": "hunter2"})}
	cause := errors.New("the log says hunter2")
	var needs node.NeedsOperator
	var bad node.BadInput
	err := target.Redact(node.NeedsOperator{Err: fmt.Errorf("not healthy: %w", cause)})
	if !errors.As(err, &needs) || errors.As(err, &bad) || err.Error() != "not healthy: the log says <secret rabbit>" {
		t.Errorf("got %T: %v", err, err)
	}
	if wrapped := fmt.Errorf("recover: %w", errors.Join(err, nil)); strings.Contains(wrapped.Error(), "hunter2") {
		t.Error(wrapped)
	}
	plain := errors.New("nothing in it")
	if target.Redact(plain) != plain || target.Redact(nil) != nil {
		t.Error("what has no secret was changed")
	}
	target = nil
	if target.Redact(plain) != plain {
		t.Error("without a target")
	}
}

// readText reads a node file below a root of its own.
func readText(t *testing.T, text string) (*Target, error) {
	t.Helper()
	n := &node.Node{Root: t.TempDir(), Name: "host"}
	for path, content := range map[string]string{node.DefaultNodeFile: text, "/etc/kollet/password": "hunter2\n", "/etc/kollet/tiny": "abc\n", "/etc/kollet/empty": "\n"} {
		if err := os.MkdirAll(filepath.Dir(n.Path(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(n.Path(path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Read(n, Options{}, "upgrade")
}

// A command that failed may have left an empty file.
func TestEmptySecrets(t *testing.T) {
	t.Setenv("KOLLET_TEST_EMPTY", "")
	_, err := readText(t, "profile: none\nsecrets:\n  a: {file: /etc/kollet/empty}\n  b: {env: KOLLET_TEST_EMPTY}\nservices: {one: {image: 'a:1'}}\n")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		":3:7: secrets.a.file: /etc/kollet/empty is empty; write the secret to this file",
		":4:3: secrets.b: the environment variable KOLLET_TEST_EMPTY is not set, or empty",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// systemd passes credentials in a directory.
func TestCredentials(t *testing.T) {
	const text = "profile: none\nsecrets:\n  a: {credential: rabbit}\nservices:\n  one:\n    image: a:1\n    config:\n    - {content: '{{ secret \"a\" }}', dest: /a, owner: nova, perm: '0600'}\n"
	dir := t.TempDir()
	given := filepath.Join(dir, "given")
	if err := errors.Join(os.Mkdir(given, 0o700), os.WriteFile(filepath.Join(given, "rabbit"), []byte("hunter2\n"), 0o400)); err != nil {
		t.Fatal(err)
	}
	t.Setenv(credentialsVar, given)
	target, err := readText(t, text)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(target.Files["one"][0].Content); got != "hunter2" {
		t.Errorf("got %q", got)
	}
	if digest := target.Services[0].Files[0].SHA256; strings.Contains(digest, generation.Sum([]byte("hunter2"))) {
		t.Errorf("the digest %s tells whether a guess is the secret", digest)
	}
	for dir, want := range map[string]string{
		"":  ":3:7: secrets.a.credential: systemd passed no credentials to kollet; pass it with LoadCredential=rabbit:PATH in the unit, or with ",
		dir: ":3:7: secrets.a.credential: cannot be read: ",
	} {
		t.Setenv(credentialsVar, dir)
		if _, err := readText(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", dir, err, want)
		}
	}
}

// What is no file never ends, or has no end.
func TestSecretsNoFile(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	n := &node.Node{NodeFile: filepath.Join(t.TempDir(), "node.yaml"), Name: "host"}
	if err := os.WriteFile(n.NodeFilePath(), []byte("profile: none\nsecrets:\n  a: {file: "+fifo+"}\n  b: {file: /dev/zero}\nservices: {one: {image: 'a:1'}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Read(n, Options{}, "upgrade")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		":3:7: secrets.a.file: cannot be read: " + fifo + " is a FIFO, not a regular file; write the secret to this file",
		":4:7: secrets.b.file: cannot be read: /dev/zero is a device, not a regular file; write the secret to this file",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// base is a node file; FIELDS is replaced in its one service.
const base = `profile: none
vars: {nothing: "", dir: /tmp}
secrets: {rabbit: {file: /etc/kollet/password}, tiny: {file: /etc/kollet/tiny}}
services:
  one:
    image: a:1
    FIELDS
  two: {image: "a:1", environment: {A: "{{ .vars.nothing }}{{ .vars.dir }}"}} # no variable is unused
`

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		fields string
		want   string // beginning of the problem; empty: none
	}{
		"plain":               {`config: [{content: "p={{ secret \"rabbit\" }}", dest: /etc/a, owner: root, perm: "0600"}]`, ""},
		"short secret":        {`environment: {A: xabcx}`, ""},
		"secret in a command": {`command: [a, --password=hunter2]`, ":5:3: services.one: the value of secret rabbit is in its command; "},
		"in the environment":  {`environment: {URL: "amqp://u:hunter2@h"}`, ":5:3: services.one: the value of secret rabbit is in its environment; "},
		"in a probe":          {`healthcheck: [{exec: [check, hunter2]}]`, ":5:3: services.one: the value of secret rabbit is in its healthcheck; "},
		"in what it requires": {`requires: [{http: "http://hunter2@h/"}]`, ":5:3: services.one: the value of secret rabbit is in its requires; "},
		"requires nothing":    {`requires: [{http: "{{ .vars.nothing }}"}, {amqp: "amqp://h"}]`, ""},
		"requires no URL":     {`requires: [{amqp: "amqp://h"}, {http: "keystone:5000"}]`, `:7:36: services.one.requires[1].http: expected a URL such as http://HOST:PORT/PATH, got "keystone:5000"`},
		"requires no broker":  {`requires: [{amqp: "rabbit://h"}]`, `:7:16: services.one.requires[0].amqp: expected amqp://HOST:PORT or amqps://HOST:PORT, got "rabbit://h"`},
		"relative ca_file":    {`requires: [{amqp: "amqps://h", ca_file: ca.pem}]`, `:7:16: services.one.requires[0].ca_file: expected an absolute path in the container, got "ca.pem"`},
		"probe of nothing":    {`healthcheck: [{http: "{{ .vars.nothing }}"}]`, ":7:19: services.one.healthcheck[0]: it is empty on this node; "},
		"in the warm-up":      {`warmup: [hunter2]`, ":5:3: services.one: the value of secret rabbit is in its warmup; "},
		"a mount's source":    {`volumes: ["{{ .vars.dir }}:/a", data:/b, /c]`, ""},
		"source of nothing":   {`volumes: [x:/x, {source: "{{ .vars.nothing }}", target: /var/lib/nova}]`, ":7:21: services.one.volumes[1].source: {{ .vars.nothing }} is empty on this node; "},
		"source is not there": {`volumes: [/no/such:/a]`, ":7:15: services.one.volumes[0].source: /no/such cannot be mounted: no such file or directory; "},
		"unknown in a source": {`volumes: ["{{ .vars.non }}:/a"]`, ":7:15: services.one.volumes[0].source: "},
		"a path as volume":    {`volumes: [a/b:/x]`, `:5:3: services.one: volume at /x: "a/b" is not a volume name`},
		"kollet's own place":  {`volumes: [x:/.kollet/gate]`, ":7:15: services.one.volumes[0].target: /.kollet is kollet's own in every container; "},
		"limit of nothing":    {`ulimits: [{name: nofiles}]`, `:5:3: services.one: ulimit "nofiles"; expected one of`},
		"device":              {`devices: [kvm]`, `:5:3: services.one: device "kvm" is not an absolute path`},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := readText(t, strings.Replace(base, "FIELDS", c.fields, 1))
			if c.want == "" {
				if err != nil || len(target.Services) != 2 {
					t.Errorf("got %v", err)
				}
				return
			}
			if _, ok := errors.AsType[node.BadInput](err); !ok {
				t.Fatalf("got %v", err)
			}
			_, problem, _ := strings.Cut(err.Error(), "node.yaml")
			if !strings.HasPrefix(problem, c.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestDimensionsAndTmpfs(t *testing.T) {
	target, err := readText(t, strings.Replace(base, "FIELDS", "dimensions: {mem_limit: 2g, cpuset_cpus: 0-1}\n    volumes: [{target: /t, size: 1m, mode: '0700'}]", 1))
	if err != nil {
		t.Fatal(err)
	}
	want := containers.Dimensions{MemLimit: 2 << 30, CpusetCpus: "0-1"}
	if !slices.ContainsFunc(target.Services, func(s generation.Service) bool { return s.Spec.Dimensions == want }) {
		t.Errorf("no service has %+v", want)
	}
	tmpfs := containers.Mount{Type: containers.Tmpfs, Target: "/t", Size: 1 << 20, Mode: "0700"}
	if !slices.ContainsFunc(target.Services, func(s generation.Service) bool { return slices.Contains(s.Spec.Mounts, tmpfs) }) {
		t.Errorf("no service has %+v", tmpfs)
	}
}

// A container that can write kollet's state decides what kollet runs.
func TestStateIsNotMounted(t *testing.T) {
	for source, refused := range map[string]bool{
		"/var/lib/kollet": true, "/var/lib/kollet/": true, "/var/lib/kollet/generations/000001": true, "/srv/link": true, "/srv/link/generations": true,
		"/var/lib": false, "/var/lib/kollet-data": false, "/srv": false,
	} {
		n := onHost(t, map[string]string{"/var/lib/kollet/generations/000001/": "", "/var/lib/kollet-data/": "", "/srv/link": "->../var/lib/kollet"})
		n.Host.Root = n.Root
		text := strings.Replace("profile: none\nservices:\n  one:\n    image: a:1\n    volumes: [{source: SOURCE, target: /x, read_only: true}]\n", "SOURCE", source, 1)
		err := os.MkdirAll(filepath.Dir(n.NodeFilePath()), 0o755)
		if err == nil {
			err = os.WriteFile(n.NodeFilePath(), []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = Read(n, Options{}, "upgrade")
		want := ":5:15: services.one.volumes[0].source: " + source + " is in kollet's state directory, "
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// Secrets are kept out of messages also when the node file is incomplete without
// the command line.
func TestRedactorOfTheNodeFile(t *testing.T) {
	n := &node.Node{Root: t.TempDir()}
	if err := os.MkdirAll(n.Path("/etc/kollet"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KOLLET_TEST_SECRET", "from-env")
	text := "profile: none\nsecrets: {a: {file: /etc/kollet/a}, b: {env: KOLLET_TEST_SECRET}, c: {file: /none}}\nservices: {one: {image: needs-a-tag}}\n"
	if err := errors.Join(os.WriteFile(n.Path(node.DefaultNodeFile), []byte(text), 0o600), os.WriteFile(n.Path("/etc/kollet/a"), []byte("from-file\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, want := RedactorOf(n).Text("from-file, from-env?"), "<secret a>, <secret b>?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.WriteFile(n.Path(node.DefaultNodeFile), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := RedactorOf(n).Text("from-file"); got != "from-file" {
		t.Errorf("without a node file: %q", got)
	}
}
