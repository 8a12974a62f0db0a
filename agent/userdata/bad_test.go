package userdata_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/userdata"
)

// Everything that the node would reject is reported at once, with its place.
func TestBadNodes(t *testing.T) {
	for name, c := range map[string]struct {
		node  string
		files map[string]string
		with  func(*userdata.Node)
		want  []string // lines; DIR is the tree
	}{
		"good": {node: nodeFile},
		"typos": {
			node: "profile: none\nimagse: {}\nservices:\n  web: {image: web:1, comand: [x]}\n",
			want: []string{"DIR/node.yaml:2:1: imagse: unknown key; did you mean images?", "DIR/node.yaml:4:23: services.web.comand: unknown key; did you mean command?"},
		},
		"files that are not sent": {
			node:  "profile: none\nsecrets:\n  a: {file: /etc/kollet/secrets/a}\n  b: {file: /etc/kollet/secrets/b}\n  c: {env: C}\nservices:\n  web:\n    image: web:1\n    config:\n      - {source: /etc/x.conf, dest: /x, owner: root, perm: '0600'}\n",
			files: map[string]string{"secrets/a": "x"},
			want: []string{
				"DIR/node.yaml:4:7: secrets.b.file: /etc/kollet/secrets/b is not copied to the node; add --secret b=FILE, or use --on-node /etc/kollet/secrets/b if the image has it",
				"DIR/node.yaml:10:9: services.web.config[0].source: /etc/x.conf is not copied to the node; add --file /etc/x.conf=FILE, or use --on-node /etc/x.conf if the image has it",
			},
		},
		"files that the image has": {
			node: "profile: none\nsecrets:\n  a: {file: /etc/kollet/secrets/a}\nservices:\n  web:\n    image: web:1\n    config:\n      - {source: /etc/x/y.conf, dest: /x, owner: root, perm: '0600'}\n      - {template: mine, dest: /y, owner: root, perm: '0600'}\n",
			with: func(n *userdata.Node) {
				n.OnNode = []string{"/etc/kollet/secrets/a", "/etc/x/", "/etc/kollet/templates"}
			},
		},
		"files that are given": {
			node: "profile: none\nsecrets:\n  a: {file: /etc/kollet/secrets/a}\nservices:\n  web:\n    image: web:1\n    config:\n      - {source: /etc/x.conf, dest: /x, owner: root, perm: '0600'}\n",
			with: func(n *userdata.Node) {
				n.Secrets = map[string]string{"a": n.NodeFile}
				n.Files = []userdata.File{{Path: "/etc/x.conf"}}
			},
		},
		"directories that are given": {
			node: "profile: none\nservices:\n  web:\n    image: web:1\n    config:\n      - {source: /etc/site, dest: /x, owner: root, perm: '0600'}\n      - {source: /etc/keys/*.key, dest: /y/, owner: root, perm: '0600'}\n      - {source: /etc/gone, dest: /z, owner: root, perm: '0600', optional: true}\n      - {source: /etc/si, dest: /w, owner: root, perm: '0600'}\n",
			with: func(n *userdata.Node) {
				n.Files = []userdata.File{{Path: "/etc/site/below/x.conf"}, {Path: "/etc/keys/a.key"}}
			},
			want: []string{"DIR/node.yaml:9:9: services.web.config[3].source: /etc/si is not copied to the node; "},
		},
		"a missing variable and an unused one": {
			node: "profile: none\nvars: {rabit: x}\nservices:\n  web:\n    image: web:1\n    environment: {A: '{{ .vars.rabbit }}'}\n    volumes: ['{{ .vars.dir }}:/x']\n    config:\n      - {content: '{{ .vars.rabbit }}', dest: /x, owner: root, perm: '0600'}\n",
			want: []string{
				`DIR/node.yaml:6:19: services.web.environment.A: variable "rabbit" is not set; set vars.rabbit in the node file; did you mean rabit?`,
				`DIR/node.yaml:7:15: services.web.volumes[0].source: variable "dir" is not set; set vars.dir in the node file`,
				`DIR/node.yaml:9:9: services.web.config[0].content:1: services.web.config[0]: variable "rabbit" is not set; set vars.rabbit in the node file; did you mean rabit?`,
			},
		},
		"an unused override": {
			node: nodeFile, files: map[string]string{"config/nova.conf": "[DEFAULT]\n"},
			want: []string{"DIR/config/nova.conf: no service has a config file with this override"},
		},
		"instance data": {
			node: "profile: none\nvars: {x: 1}\nservices:\n  web:\n    image: web:1\n    config:\n      - {content: '{{ .instance.v1.region }} {{ .vars.x }}', dest: /x, owner: root, perm: '0600'}\n",
		},
		"flags": {
			node: nodeFile,
			with: func(n *userdata.Node) {
				n.Install = userdata.Install{From: "https://example.com/kollet", SHA256: "abc"}
				n.Files = []userdata.File{{Path: "/a"}, {Path: "/a"}, {Path: "b"}, {Path: "/c/../d"}}
				n.Secrets = map[string]string{"none": n.NodeFile, "gone": "/none/here"}
			},
			want: []string{
				"--sha256: expected the SHA-256 of https://example.com/kollet", "/a is given twice; drop one", "--file b: expected the absolute path", "--file /c/../d: expected the absolute path",
				"--secret gone: open /none/here: no such file or directory", "--secret gone: the node file has no secret", "--secret none: the node file has no secret",
			},
		},
		"no node file": {
			with: func(n *userdata.Node) { n.NodeFile += ".none"; n.Tree = "" },
			want: []string{"DIR/node.yaml.none: no node file; write one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeWith(t, c.files)
			if c.node != "" {
				node = nodeWith(t, merged(c.files, c.node))
			}
			dir := filepath.Dir(node.NodeFile)
			if c.with != nil {
				c.with(&node)
			}
			_, err := userdata.Build(userdata.Recipe{Node: node})
			if len(c.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(strings.ReplaceAll(err.Error(), dir, "DIR"), "\n")
			for _, want := range c.want {
				at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) })
				if at < 0 {
					t.Errorf("not reported: %s", want)
					continue
				}
				lines = slices.Delete(lines, at, at+1)
			}
			if name != "flags" && len(lines) > 0 {
				t.Errorf("also reported: %q", lines)
			}
		})
	}
}

func merged(files map[string]string, node string) map[string]string {
	all := map[string]string{"node.yaml": node}
	maps.Copy(all, files)
	return all
}

func TestBadParts(t *testing.T) {
	for _, c := range []struct{ kind, content, want string }{
		{userdata.CloudConfigType, "runcmd: [a]\n", "p:1:1: a cloud-config begins with the line #cloud-config"},
		{userdata.CloudConfigType, "#cloud-config\nruncmd: [a\n", "p:"},
		{userdata.CloudConfigType, "#cloud-config\n- a\n", "p:2:1: a cloud-config is a mapping"},
		{userdata.CloudConfigType, "#cloud-config\na: 1\na: 2\n", "p:"},
		{userdata.CloudConfigType, "#cloud-config\n# nothing\n", ""},
		{userdata.ShellScript, "echo\n", "p: a shell script begins with #!"},
		{userdata.ShellScript, "", "p: the part is empty"},
		{"text/jinja2", "#cloud-config\n", `p: expected "## template: jinja" as its first line`},
		{"text/x-include-url", "#include\nhttps://a/b\n\n# x\nfile:///c\n", ""},
		{"text/x-include-url", "#include https://a/b", ""},
		{"text/x-include-once-url", "#include-once\na/b\n", `p:2:1: expected a URL (http, https, file), got "a/b"`},
		{"text/x-include-url", "#include\n", "p: the include file has no URL"},
		{"text/x-shellscript-per-boot", "anything", ""},
	} {
		_, err := userdata.Build(userdata.Recipe{Node: nodeWith(t, nil), Parts: []userdata.Part{{Type: c.kind, Name: "p", Data: []byte(c.content)}}})
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %q: got %v, want %q", c.kind, c.content, err, c.want)
		}
	}
	for _, names := range [][]string{{"a b"}, {"../x"}, {""}, {".hidden"}, {"x", "x"}} {
		r := userdata.Recipe{Node: nodeWith(t, nil)}
		for _, name := range names {
			r.Stored = append(r.Stored, userdata.Part{Name: name, Data: []byte("x")})
		}
		if _, err := userdata.Build(r); err == nil {
			t.Errorf("stored as %q", names)
		}
	}
}

func TestInstall(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for _, c := range []struct {
		install userdata.Install
		ok      bool
	}{
		{userdata.Install{}, true},
		{userdata.Install{From: "https://a/kollet", SHA256: sum}, true},
		{userdata.Install{From: "file:///media/kollet.deb", SHA256: sum}, true},
		{userdata.Install{From: "kollet"}, true},
		{userdata.Install{From: "kollet=1.0~rc1-1"}, true},
		{userdata.Install{From: "https://a/kollet"}, false},
		{userdata.Install{From: "https://a/kollet", SHA256: strings.ToUpper(sum)}, false},
		{userdata.Install{From: "kollet", SHA256: sum}, false},
		{userdata.Install{From: "ftp://a/kollet", SHA256: sum}, false},
		{userdata.Install{From: "/kollet", SHA256: sum}, false},
		{userdata.Install{From: "a; reboot"}, false},
		{userdata.Install{SHA256: sum}, false},
	} {
		node := nodeWith(t, nil)
		node.Install = c.install
		if _, err := userdata.Build(userdata.Recipe{Node: node}); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.install, err)
		}
	}
}
