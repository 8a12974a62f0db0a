package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigureErrors(t *testing.T) {
	const source = "0400 0:0 var/lib/kolla/config_files/f = f"
	for _, tc := range []struct{ name, config, want string }{
		{"not JSON", `{"command": `, "config.json: cannot parse JSON: "},
		{"not an object", `[]`, "expected an object"},
		{"no list", `{"command": "", "files": {}}`, "config.json: files: expected a list"},
		{"no entry", `{"command": "", "files": [1]}`, "config.json: files[0]: expected an object"},
		{"no command", `{}`, "command is missing"},
		{"command is no string", `{"command": ["a"]}`, "command: expected a string"},
		{"unknown section", `{"command": "", "volumes": []}`, "volumes: kollet-start does not know this key"},
		{"unknown key", `{"command": "", "config_files": [{"source": "/a", "dest": "/b", "owner": "root", "perm": "0600", "ignore_globs": true}]}`, "config_files[0]: ignore_globs: kollet-start does not know this key"},
		{"comment in config_files, which Kolla refuses too", `{"command": "", "config_files": [{"_comment": "x", "source": "/a", "dest": "/b", "owner": "root", "perm": "0600"}]}`, "config_files[0]: _comment: kollet-start does not know this key"},
		{"unknown escape", `{"command": "\x"}`, "config.json: line 1, column 13: the string is not closed, or contains a control character, an unknown escape"},
		{"not UTF-8", "{\"command\": \"\xff\"}", "config.json: line 1, column 14: this is not UTF-8"},
		{"key of another section", `{"command": "", "permissions": [{"path": "/a", "owner": "root", "merge": true}]}`, "permissions[0]: merge: kollet-start does not know this key"},
		{"exclude with look-around", `{"command": "", "permissions": [{"path": "/a", "owner": "root", "recurse": true, "exclude": ["x", "(?!y)"]}]}`, `config.json: permissions[0]: exclude: entry 1: "(?!y)": error parsing regexp: invalid or unsupported Perl syntax`},
		{"exclude is no list", `{"command": "", "permissions": [{"path": "/a", "owner": "root", "exclude": "x"}]}`, "config.json: permissions[0]: exclude: expected a list"},
		{"no source", `{"command": "", "config_files": [{"dest": "/b", "owner": "root", "perm": "0600"}]}`, "config.json: config_files[0]: source is missing"},
		{"relative dest", `{"command": "", "config_files": [{"source": "/a", "dest": "b", "owner": "root", "perm": "0600"}]}`, `config_files[0]: dest "b": expected an absolute path`},
		{"no perm", `{"command": "", "config_files": [{"source": "/a", "dest": "/b", "owner": "root"}]}`, "owner and perm are missing"},
		{"bad perm", `{"command": "", "config_files": [{"source": "/a", "dest": "/b", "owner": "root", "perm": "0888"}]}`, `config_files[0]: perm: "0888": expected three or four octal digits`},
		{"perm too long", `{"command": "", "config_files": [{"source": "/a", "dest": "/b", "owner": "root", "perm": "00644"}]}`, `"00644": expected three or four`},
		{"wrong type", `{"command": "", "config_files": [{"source": "/a", "dest": "/b", "owner": "root", "perm": "0644", "optional": "no"}]}`, "config_files[0]: optional: "},
		{"pattern as directory", `{"command": "", "directories": [{"path": "/a*", "owner": "root", "perm": "0755"}]}`, `directories[0]: path "/a*": must not be a pattern`},
		{"directory without perm", `{"command": "", "directories": [{"path": "/a", "owner": "root", "perm": null}]}`, "directories[0]: perm is missing"},
		{"missing source", `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/g*", "dest": "/b", "owner": "root", "perm": "0600"}]}`, "config_files[0]: source /var/lib/kolla/config_files/g*: no such file"},
		{"unknown user", `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/f", "dest": "/b", "owner": "noah", "perm": "0600"}]}`, `config_files[0]: owner noah: no user "noah" in the image's /etc/passwd`},
		{"no group of the user's name", `{"command": "", "permissions": [{"path": "/a", "owner": "nogroup"}]}`, `permissions[0]: owner nogroup: no group "nogroup" in the image's /etc/group`},
		{"link where a file should be", `{"command": "", "files": [{"path": "/etc/mtab", "owner": "root", "perm": "0644"}]}`, "files[0]: "},
		{"directory where a file should be", `{"command": "", "files": [{"path": "/etc", "owner": "root", "perm": "0644"}]}`, "files[0]: "},
		{"file in a missing directory", `{"command": "", "files": [{"path": "/a/b", "owner": "root", "perm": "0644"}]}`, "files[0]: "},
		{"number as owner", `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/f", "dest": "/b", "owner": "42436", "perm": "0600"}]}`, `config_files[0]: owner 42436: no user "42436" in the image's /etc/passwd`},
		{"number as group", `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/f", "dest": "/b", "owner": "nova:0", "perm": "0600"}]}`, `config_files[0]: owner nova:0: no group "0" in the image's /etc/group`},
		{"file as a source that ends in a slash", `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/f/", "dest": "/b", "owner": "root", "perm": "0600"}]}`, "config_files[0]: source /var/lib/kolla/config_files/f/: no such file"},
		{"link that leads nowhere", `{"command": "", "config_files": [{"source": "/etc/mtab", "dest": "/b", "preserve_properties": true}]}`, "etc/mtab: no such file"},
		{"optional source that an entry made, unknown user", `{"command": "", "directories": [{"path": "/d", "owner": "root", "perm": "0755"}], "config_files": [{"source": "/d", "dest": "/b", "owner": "noah", "perm": "0600", "optional": true}]}`, `config_files[0]: owner noah: no user "noah"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, err := applied(t, source+"\n0777 0:0 etc/mtab -> ../proc/mounts", tc.config)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
			for _, name := range []string{"b", "configured"} {
				if exists(filepath.Join(root, name)) {
					t.Errorf("%s was made", name)
				}
			}
		})
	}
}

// What config.yaml says wrong is named as in config.json, with the line if it is no JSON.
func TestConfigureErrorsInYAML(t *testing.T) {
	const entry = "command: x\nconfig_files:\n- source: /a\n  dest: /b\n  owner: root\n"
	for _, tc := range []struct{ name, config, want string }{
		{"a number as mode", entry + "  perm: 0600\n", "config.yaml: config_files[0]: perm: expected a string, found a number; put it in quotes"},
		{"a boolean as owner", "command: x\npermissions: [{path: /a, owner: on}]\n", "config.yaml: permissions[0]: owner: expected a string, found true or false; put it in quotes"},
		{"a key that is there twice", entry + "  dest: /c\n", "config.yaml: line 6, column 3: the key dest is there twice, first in line 4"},
		{"a date as command", "command: 2026-01-02\n", `config.yaml: line 1, column 10: "2026-01-02" is a date here; put it in quotes`},
		{"unknown key", entry + "  perm: '0600'\n  ignore_globs: yes\n", "config.yaml: config_files[0]: ignore_globs: kollet-start does not know this key"},
		{"no YAML", "command: x: y\n", "config.yaml: not valid YAML: mapping values are not allowed"},
		{"a list", "- command: x\n", "config.yaml: expected an object"},
		{"nothing", "# command: x\n", "config.yaml: the file is empty"},
		{"no command", "files: []\n", "config.yaml: command is missing"},
		{"missing source", entry + "  perm: '0600'\n", "config.yaml: config_files[0]: source /a: no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := withYAML(t, tc.config)
			if _, err := configure(root, knownNames(t, root)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
			if exists(filepath.Join(root, "configured")) {
				t.Error("it is configured")
			}
		})
	}
}

// Kolla applies config.yaml instead of config.json, or without one.
func TestConfigurePrefersYAML(t *testing.T) {
	for _, other := range []string{`{"command": "y"}`, "no JSON", ""} {
		root := withYAML(t, "command: x\n")
		if other != "" {
			check(t, os.WriteFile(filepath.Join(root, "var/lib/kolla/config_files/config.json"), []byte(other), 0o600))
		}
		for range 2 { // a configured container is left alone
			if configured, err := configure(root, knownNames(t, root)); err != nil || !configured {
				t.Errorf("beside %q: %v, %v", other, configured, err)
			}
			check(t, os.WriteFile(filepath.Join(root, "var/lib/kolla/config_files/config.yaml"), []byte("no command"), 0o600))
		}
		if got, err := os.ReadFile(filepath.Join(root, runCommand)); err != nil || string(got) != "x" {
			t.Errorf("beside %q: command %q, %v", other, got, err)
		}
	}
}

// withYAML returns a root with a config.yaml.
func withYAML(t *testing.T, config string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, content := range map[string]string{"etc/passwd": passwd, "etc/group": group, "var/lib/kolla/config_files/config.yaml": config} {
		check(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		check(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o644))
	}
	return root
}

func knownNames(t *testing.T, root string) names {
	t.Helper()
	n, err := readNames(root)
	check(t, err)
	return n
}
