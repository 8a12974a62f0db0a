package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const passwd = `root:x:0:0:root:/root:/bin/sh
qemu:x:42427:42427::/nonexistent:/usr/sbin/nologin
nova:x:42436:42436:nova user:/var/lib/nova:/usr/sbin/nologin
nogroup:x:50:60::/:/bin/false
`

const group = `root:x:0:
kolla:x:42400:nova,neutron
qemu:x:42427:nova
nova:x:42436:
`

// applied applies config to a root that holds tree, and returns what is there.
func applied(t *testing.T, tree, config string) (root string, err error) {
	t.Helper()
	old := unix.Umask(0o022)
	t.Cleanup(func() { unix.Umask(old) })
	root = t.TempDir()
	plant(t, root, "0644 0:0 var/lib/kolla/config_files/config.json = "+strings.ReplaceAll(config, "\n", " ")+"\n"+tree)
	check(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	check(t, os.WriteFile(filepath.Join(root, "etc/passwd"), []byte(passwd), 0o644))
	check(t, os.WriteFile(filepath.Join(root, "etc/group"), []byte(group), 0o644))
	names, err := readNames(root)
	check(t, err)
	_, err = configure(root, names)
	return root, err
}

func TestConfigure(t *testing.T) {
	for _, tc := range []struct {
		name, tree, config, want string
	}{
		{
			name:   "file with owner and mode, over the image's",
			tree:   "0644 0:0 etc/nova/nova.conf = default\n0400 0:0 var/lib/kolla/config_files/nova.conf = rendered",
			config: `{"command": "nova-compute", "config_files": [{"source": "/var/lib/kolla/config_files/nova.conf", "dest": "/etc/nova/nova.conf", "owner": "nova", "perm": "0600"}]}`,
			want: `0755 0:0 etc/nova/
				0600 42436:42436 etc/nova/nova.conf = rendered`,
		},
		{
			name:   "set-id bits outlive chown; owner with a group; perm as Python writes it; parents are made",
			tree:   "0400 0:0 var/lib/kolla/config_files/tool = x",
			config: `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/tool", "dest": "/opt/a/tool", "owner": "root:qemu", "perm": "0o6755"}]}`,
			want: `0755 0:0 opt/
				0755 0:0 opt/a/
				6755 0:42427 opt/a/tool = x`,
		},
		{
			name: "wildcards into a directory; a leading dot is not matched; [!x] negates",
			tree: `0400 0:0 var/lib/kolla/config_files/a.conf = a
				0400 0:0 var/lib/kolla/config_files/b.conf = b
				0400 0:0 var/lib/kolla/config_files/x.conf = x
				0400 0:0 var/lib/kolla/config_files/.hidden.conf = h`,
			config: `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/*[!x].conf", "dest": "/etc/d/", "owner": "root", "perm": "644"}]}`,
			want: `0755 0:0 etc/d/
				0644 0:0 etc/d/a.conf = a
				0644 0:0 etc/d/b.conf = b`,
		},
		{
			name:   "optional source that is not there",
			config: `{"command": "", "config_files": [{"source": "/nowhere/*", "dest": "/etc/d/", "owner": "root", "perm": "0644", "optional": true}, {"source": "/nowhere/x", "dest": "/etc/x", "owner": "root", "perm": "0644", "optional": true}]}`,
		},
		{
			name: "directory replaces directory; directories get x where they have r",
			tree: `0700 0:0 etc/s/
				0600 0:0 etc/s/old = old
				0755 0:0 var/lib/kolla/config_files/secrets/
				0400 0:0 var/lib/kolla/config_files/secrets/sub/key = k`,
			config: `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/secrets", "dest": "/etc/s", "owner": "nova", "perm": "0640"}]}`,
			want: `0750 42436:42436 etc/s/
				0750 42436:42436 etc/s/sub/
				0640 42436:42436 etc/s/sub/key = k`,
		},
		{
			name: "merge keeps what else is there, replaces files, and files by directories",
			tree: `0700 0:0 etc/s/
				0600 0:0 etc/s/old = old
				0600 0:0 etc/s/key = old
				0600 0:0 etc/s/sub = a file
				0400 0:0 var/lib/kolla/config_files/s/key = new
				0400 0:0 var/lib/kolla/config_files/s/sub/deep = d`,
			config: `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/s", "dest": "/etc/s", "owner": "root", "perm": "0600", "merge": true}]}`,
			want: `0700 0:0 etc/s/
				0600 0:0 etc/s/key = new
				0600 0:0 etc/s/old = old
				0700 0:0 etc/s/sub/
				0600 0:0 etc/s/sub/deep = d`,
		},
		{
			name: "file replaces directory and link, not the link's target",
			tree: `0600 0:0 etc/dir/old = old
				0600 0:0 etc/target = kept
				0777 0:0 etc/link -> target
				0400 0:0 var/lib/kolla/config_files/f = f`,
			config: `{"command": "", "config_files": [
				{"source": "/var/lib/kolla/config_files/f", "dest": "/etc/dir", "owner": "root", "perm": "0600"},
				{"source": "/var/lib/kolla/config_files/f", "dest": "/etc/link", "owner": "root", "perm": "0600"}]}`,
			want: `0600 0:0 etc/dir = f
				0600 0:0 etc/link = f
				0600 0:0 etc/target = kept`,
		},
		{
			name:   "preserve_properties",
			tree:   "0751 7:8 var/lib/kolla/config_files/f = f",
			config: `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/f", "dest": "/etc/f", "preserve_properties": true}]}`,
			want:   "0751 7:8 etc/f = f",
		},
		{
			name: "links are followed, unless merged with their properties",
			tree: `0400 0:0 var/lib/kolla/config_files/d/f = f
				0777 0:0 var/lib/kolla/config_files/d/l -> f`,
			config: `{"command": "", "config_files": [
				{"source": "/var/lib/kolla/config_files/d", "dest": "/etc/plain", "owner": "root", "perm": "0600"},
				{"source": "/var/lib/kolla/config_files/d", "dest": "/etc/merged", "preserve_properties": true, "merge": true}]}`,
			want: `0755 0:0 etc/merged/
				0400 0:0 etc/merged/f = f
				0777 0:0 etc/merged/l -> f
				0700 0:0 etc/plain/
				0600 0:0 etc/plain/f = f
				0600 0:0 etc/plain/l = f`,
		},
		{
			name: "a source that ends in a slash goes into the destination itself",
			tree: "0400 0:0 var/lib/kolla/config_files/d/f = f",
			config: `{"command": "", "config_files": [
				{"source": "/var/lib/kolla/config_files/d/", "dest": "/etc/in/", "owner": "root", "perm": "0600"},
				{"source": "/var/lib/kolla/config_files/d", "dest": "/etc/below/", "owner": "root", "perm": "0600"}]}`,
			want: `0755 0:0 etc/below/
				0700 0:0 etc/below/d/
				0600 0:0 etc/below/d/f = f
				0700 0:0 etc/in/
				0600 0:0 etc/in/f = f`,
		},
		{
			name: "directories and files",
			tree: "0600 0:0 var/log/there = kept",
			config: `{"command": "", "directories": [{"path": "/var/log/kolla/nova", "owner": "nova:kolla", "perm": "2754"}],
				"files": [{"path": "/var/log/new", "owner": "nova", "perm": "0640"}, {"path": "/var/log/there", "owner": "nova", "perm": "0640"}]}`,
			want: `0755 0:0 var/log/
				0755 0:0 var/log/kolla/
				2755 42436:42400 var/log/kolla/nova/
				0640 42436:42436 var/log/new
				0640 42436:42436 var/log/there = kept`,
		},
		{
			name: "permissions come last, take wildcards, and leave the mode if none is given",
			tree: `0600 0:0 etc/a.conf
				0600 0:0 etc/b.conf
				0644 0:0 etc/c.txt`,
			config: `{"command": "", "permissions": [{"path": "/etc/*.conf", "owner": "nova", "perm": "0640"}, {"path": "/etc/c.txt", "owner": "qemu"}, {"path": "/absent", "owner": "root", "exclude": []}]}`,
			want: `0640 42436:42436 etc/a.conf
				0640 42436:42436 etc/b.conf
				0644 42427:42427 etc/c.txt`,
		},
		{
			name: "permissions below a directory follow no links",
			tree: `0600 0:0 etc/outside = o
				0755 0:0 srv/deep/
				0600 0:0 srv/deep/f
				0777 0:0 srv/deep/escape -> ../../etc/outside`,
			config: `{"command": "", "permissions": [{"path": "/srv", "owner": "nova", "perm": "0644", "recurse": true}]}`,
			want: `0600 0:0 etc/outside = o
				0755 42436:42436 srv/
				0755 42436:42436 srv/deep/
				0777 42436:42436 srv/deep/escape -> ../../etc/outside
				0644 42436:42436 srv/deep/f`,
		},
		{
			name: "comments in keys",
			config: `{"_comment": ["manually"], "command": "", "files": [{"_why": "a socket needs it", "path": "/srv/f", "owner": "nova", "perm": "0640"}],
				"directories": [{"path": "/srv", "owner": "root", "perm": "0755", "_n": 1}], "permissions": [{"_": null, "path": "/srv/f", "owner": "qemu"}]}`,
			want: `0755 0:0 srv/
				0640 42427:42427 srv/f`,
		},
		{
			name: "permissions exclude what all patterns find in the path, not what is below it",
			tree: `0600 0:0 srv/a/disk
				0600 0:0 srv/a/disk.log
				0700 0:0 srv/disk.d/
				0600 0:0 srv/disk.d/x.log`,
			config: `{"command": "", "permissions": [
				{"path": "/srv", "owner": "nova", "recurse": true, "exclude": ["disk", "g$"]},
				{"path": "/srv", "owner": "qemu", "perm": "0640", "recurse": true, "exclude": ["^/srv/(a|disk)[^/]*$"]}]}`,
			want: `0750 42427:42427 srv/
				0755 42436:42436 srv/a/
				0640 42427:42427 srv/a/disk
				0640 42427:42427 srv/a/disk.log
				0700 42436:42436 srv/disk.d/
				0640 42427:42427 srv/disk.d/x.log`,
		},
		{
			name: "permissions exclude only with recurse, and not the path itself",
			tree: "0600 0:0 srv/a",
			config: `{"command": "", "permissions": [
				{"path": "/srv/a", "owner": "nova", "exclude": ["a"]},
				{"path": "/srv", "owner": "qemu", "recurse": true, "exclude": ["srv"]}]}`,
			want: `0755 42427:42427 srv/
				0600 42436:42436 srv/a`,
		},
		{
			name: "merged with their properties, links that lead nowhere are copied",
			tree: `0400 0:0 var/lib/kolla/config_files/d/f = f
				0777 0:0 var/lib/kolla/config_files/d/l -> nowhere
				0777 0:0 var/lib/kolla/config_files/self -> self`,
			config: `{"command": "", "config_files": [
				{"source": "/var/lib/kolla/config_files/d", "dest": "/etc/d", "preserve_properties": true, "merge": true},
				{"source": "/var/lib/kolla/config_files/self", "dest": "/etc/", "preserve_properties": true, "merge": true}]}`,
			want: `0755 0:0 etc/d/
				0400 0:0 etc/d/f = f
				0777 0:0 etc/d/l -> nowhere
				0777 0:0 etc/self -> self`,
		},
		{
			name: "brackets by the rules of Python",
			tree: `0400 0:0 var/lib/kolla/config_files/[f = 1
				0400 0:0 var/lib/kolla/config_files/] = 2
				0400 0:0 var/lib/kolla/config_files/[!]z = 3
				0400 0:0 var/lib/kolla/config_files/az = 4`,
			config: `{"command": "", "config_files": [
				{"source": "/var/lib/kolla/config_files/[f", "dest": "/etc/1/", "owner": "root", "perm": "0600"},
				{"source": "/var/lib/kolla/config_files/[]f]", "dest": "/etc/2/", "owner": "root", "perm": "0600"},
				{"source": "/var/lib/kolla/config_files/[!]z", "dest": "/etc/3/", "owner": "root", "perm": "0600"}]}`,
			want: `0755 0:0 etc/1/
				0600 0:0 etc/1/[f = 1
				0755 0:0 etc/2/
				0600 0:0 etc/2/] = 2
				0755 0:0 etc/3/
				0600 0:0 etc/3/[!]z = 3`,
		},
		{
			name: "a source that ends in a slash is a directory",
			tree: `0400 0:0 var/lib/kolla/config_files/a1 = file
				0400 0:0 var/lib/kolla/config_files/a2/f = f
				0400 0:0 var/lib/kolla/config_files/b = b`,
			config: `{"command": "", "config_files": [
				{"source": "/var/lib/kolla/config_files/a*/", "dest": "/etc/a/", "owner": "root", "perm": "0600"},
				{"source": "/var/lib/kolla/config_files/b/", "dest": "/etc/b/", "owner": "root", "perm": "0600", "optional": true}],
				"permissions": [{"path": "/etc/a/f/", "owner": "nova"}]}`,
			want: `0700 0:0 etc/a/
				0600 0:0 etc/a/f = f`,
		},
		{
			name:   "a FIFO where a file should be gets owner and mode",
			tree:   "0600 0:0 run/fifo |",
			config: `{"command": "", "files": [{"path": "/run/fifo", "owner": "nova", "perm": "0660"}]}`,
			want: `0755 0:0 run/
				0660 42436:42436 run/fifo |`,
		},
		{
			name:   "nobody is looked up for an optional source that is not there",
			config: `{"command": "", "config_files": [{"source": "/nowhere/x", "dest": "/etc/x", "owner": "noah", "perm": "0644", "optional": true}, {"source": "/nowhere/*", "dest": "/etc/x", "owner": "root:noah", "perm": "0644", "optional": true}]}`,
		},
		{
			name: "an image of Kolla gets its defaults saved and listed",
			tree: `0755 0:0 usr/local/bin/kolla_set_configs = python
				0640 42436:42436 etc/nova/nova.conf = default
				0400 0:0 var/lib/kolla/config_files/nova.conf = rendered
				0400 0:0 var/lib/kolla/config_files/ca/x.crt = ca`,
			config: `{"command": "", "config_files": [
				{"source": "/var/lib/kolla/config_files/nova.conf", "dest": "/etc/nova/", "owner": "nova", "perm": "0600"},
				{"source": "/var/lib/kolla/config_files/nova.c*", "dest": "/tmp/", "owner": "nova", "perm": "0600"},
				{"source": "/var/lib/kolla/config_files/ca", "dest": "/var/lib/kolla/share/ca-certificates", "owner": "root", "perm": "0600"}]}`,
			want: `0755 0:0 etc/kolla/
				0755 0:0 etc/kolla/defaults/
				0755 0:0 etc/kolla/defaults/etc/
				0755 0:0 etc/kolla/defaults/etc/nova/
				0640 42436:42436 etc/kolla/defaults/etc/nova/nova.conf = default
				0644 0:0 etc/kolla/defaults/state = {|    "/etc/nova/nova.conf": {|        "source": "/etc/nova/nova.conf",|        "preserve_properties": true,|        "dest": "/etc/kolla/defaults/etc/nova/nova.conf"|    },|    "/var/lib/kolla/share/ca-certificates": {|        "source": "/var/lib/kolla/share/ca-certificates",|        "preserve_properties": true,|        "dest": null|    }|}
				0755 0:0 etc/nova/
				0600 42436:42436 etc/nova/nova.conf = rendered
				0600 42436:42436 tmp/nova.conf = rendered
				0755 0:0 var/lib/kolla/share/
				0700 0:0 var/lib/kolla/share/ca-certificates/
				0600 0:0 var/lib/kolla/share/ca-certificates/x.crt = ca`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, err := applied(t, tc.tree, tc.config)
			check(t, err)
			got := withoutScaffold(harvest(t, root, "var/lib/kolla/config_files", "etc/passwd", "etc/group", "usr", "run_command", "configured"))
			if want := trim(tc.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// What the image has for it installs the certificate authorities that were given, once and
// before the service starts.
func TestConfigureTrustsAuthorities(t *testing.T) {
	const given = `{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/ca", "dest": "/var/lib/kolla/share/ca-certificates", "owner": "root", "perm": "0600", "optional": true}]}`
	program := func(script string) string {
		return "0755 0:0 usr/local/bin/kolla_copy_cacerts = #!/usr/bin/env -S sh -ec '" + script + "'\n"
	}
	const installs = `cat ${0%usr/*}var/lib/kolla/share/ca-certificates/* >>${0%usr/*}trusted`
	const ca = "0400 0:0 var/lib/kolla/config_files/ca/x.crt = ca\n"
	for name, c := range map[string]struct{ tree, config, want, err string }{
		"given":              {tree: ca + program(installs), config: given, want: "ca"},
		"none on this node":  {tree: program(installs), config: given},
		"not given":          {tree: ca + program(installs), config: `{"command": ""}`},
		"not in every image": {tree: ca, config: given},
		"cannot be trusted":  {tree: ca + program("exit 1"), config: given, err: "kolla_copy_cacerts, which makes the certificates in /var/lib/kolla/share/ca-certificates trusted: failed"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := applied(t, c.tree, c.config)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || exists(root+"/"+marker) {
					t.Fatalf("error %v, configured: %v; want an error with %q", err, exists(root+"/"+marker), c.err)
				}
				return
			}
			check(t, err)
			if got, _ := os.ReadFile(root + "/trusted"); string(got) != c.want {
				t.Errorf("trusted: %q, want %q", got, c.want)
			}
		})
	}
}

// withoutScaffold drops the directories that every root has, and those that
// only hold what a tree planted.
func withoutScaffold(tree string) string {
	var kept []string
	for line := range strings.Lines(tree) {
		switch strings.Fields(line)[2] {
		case "etc/", "tmp/", "var/", "var/lib/", "var/lib/kolla/":
		default:
			kept = append(kept, strings.TrimSpace(line))
		}
	}
	return strings.Join(kept, "\n")
}

// A service can put a link into its volume, and the next start is as root.
func TestConfigureFollowsOnlyLinksOfRoot(t *testing.T) {
	const socket = "0660 0:0 run/docker.sock = socket\n"
	for _, tc := range []struct{ name, tree, config, want string }{
		{"permissions of a link", "0777 42436:42436 var/lib/nova/x -> ../../../run/docker.sock",
			`"permissions": [{"path": "/var/lib/nova/x", "owner": "nova", "perm": "0666"}]`, ""},
		{"permissions with a wildcard", "0777 42436:42436 var/lib/nova/x -> ../../../run/docker.sock",
			`"permissions": [{"path": "/var/lib/nova/*", "owner": "nova", "perm": "0666", "recurse": true}]`, ""},
		{"permissions below a link", "0777 42436:42436 var/lib/nova/x -> ../../../run",
			`"permissions": [{"path": "/var/lib/nova/x/docker.sock", "owner": "nova"}, {"path": "/var/lib/nova/x", "owner": "nova", "recurse": true}]`, ""},
		{"a directory", "0777 42436:42436 var/lib/nova/x -> ../../../run",
			`"directories": [{"path": "/var/lib/nova/x", "owner": "nova", "perm": "0777"}]`, "belongs to another user"},
		{"a file", "0777 42436:42436 var/lib/nova/x -> ../../../run",
			`"files": [{"path": "/var/lib/nova/x/docker.sock", "owner": "nova", "perm": "0777"}]`, "belongs to another user"},
		{"a copied file", "0777 42436:42436 var/lib/nova/x -> ../../../run",
			`"config_files": [{"source": "/var/lib/kolla/config_files/config.json", "dest": "/var/lib/nova/x/docker.sock", "owner": "nova", "perm": "0777"}]`, "belongs to another user"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, err := applied(t, socket+tc.tree, `{"command": "x", `+tc.config+`}`)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
			for _, line := range []string{"0755 0:0 run/", "0660 0:0 run/docker.sock = socket"} {
				if got := harvest(t, root); !strings.Contains(got, line) {
					t.Errorf("%s is missing in:\n%s", line, got)
				}
			}
		})
	}
}

// No configuration reaches the gate, whatever an image or a volume calls it.
func TestConfigureLeavesTheGateAlone(t *testing.T) {
	const (
		own  = "0755 0:0 .kollet/\n0700 0:0 .kollet/gate/\n"
		file = `"source": "/var/lib/kolla/config_files/config.json", "owner": "nova", "perm": "0600"`
		tree = "0644 0:0 var/lib/kolla/config_files/d/gate/open = x\n"
	)
	for _, tc := range []struct{ name, tree, config, want string }{
		{"a file", "", `"config_files": [{"dest": "/.kollet/gate/open", ` + file + `}]`, "leads into /.kollet"},
		{"a file through a link", "0777 0:0 srv/x -> ../.kollet/gate", `"config_files": [{"dest": "/srv/x/open", ` + file + `}]`, "leads into /.kollet"},
		{"a file through a link to its parent", "0777 0:0 srv/x -> /.kollet", `"config_files": [{"dest": "/srv/x/gate/open", ` + file + `}]`, "leads into /.kollet"},
		{"a directory", tree, `"config_files": [{"source": "/var/lib/kolla/config_files/d", "dest": "/.kollet", "merge": true, "owner": "nova", "perm": "0600"}]`, "leads into /.kollet"},
		{"a directory over a link", tree + "0777 0:0 srv/d -> ../.kollet", `"config_files": [{"source": "/var/lib/kolla/config_files/d", "dest": "/srv/", "merge": true, "owner": "nova", "perm": "0600"}]`, "leads into /.kollet"},
		{"an empty directory", "0777 0:0 srv/x -> /.kollet/gate/open", `"directories": [{"path": "/srv/x", "owner": "nova", "perm": "0700"}]`, "leads into /.kollet"},
		{"an empty file", "0777 0:0 srv/x -> /.kollet/gate", `"files": [{"path": "/srv/x/open", "owner": "nova", "perm": "0700"}]`, "leads into /.kollet"},
		{"permissions", "0777 0:0 srv/x -> /.kollet/gate", `"permissions": [{"path": "/srv/x", "owner": "nova", "perm": "0777"}]`, ""},
		{"permissions of all", "", `"permissions": [{"path": "/.ko*", "owner": "nova", "perm": "0777", "recurse": true}]`, ""},
		{"permissions below", "", `"permissions": [{"path": "/", "owner": "root", "perm": "0755", "recurse": true, "exclude": ["^/(etc|var)"]}]`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, err := applied(t, own+tc.tree, `{"command": "x", `+tc.config+`}`)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
			if got := harvest(t, root); !strings.HasPrefix(got, strings.TrimSuffix(own, "\n")) {
				t.Errorf("there is now:\n%s", got)
			}
			if _, err := os.Lstat(filepath.Join(root, ".kollet/gate/open")); err == nil {
				t.Error("the gate is open")
			}
		})
	}
}

func TestConfigureLeavesWhatKollaLooksFor(t *testing.T) {
	root, err := applied(t, "", `{"command": "nova-compute --debug \"x y\""}`)
	check(t, err)
	got := harvest(t, root, "etc", "var")
	want := "0600 0:0 configured\n" + `0644 0:0 run_command = nova-compute --debug "x y"`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestConfigureOnlyOnce(t *testing.T) {
	root, err := applied(t, "0400 0:0 var/lib/kolla/config_files/f = one",
		`{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/f", "dest": "/etc/f", "owner": "root", "perm": "0600"}]}`)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(root, "var/lib/kolla/config_files/f"), []byte("two"), 0o600))
	configured, err := configure(root, names{})
	if err != nil || !configured {
		t.Fatalf("second time: %v, %v", configured, err)
	}
	if got, _ := os.ReadFile(filepath.Join(root, "etc/f")); string(got) != "one" {
		t.Errorf("the second time replaced the file: %q", got)
	}
}

func TestConfigureWithoutConfig(t *testing.T) {
	root := t.TempDir()
	configured, err := configure(root, names{})
	if err != nil || configured {
		t.Errorf("got %v, %v", configured, err)
	}
	if got := harvest(t, root); got != "" {
		t.Errorf("it made %s", got)
	}
}

func TestConfigureAfterAnInterruptedStart(t *testing.T) {
	root, err := applied(t, `0400 0:0 var/lib/kolla/config_files/f = f
		0600 0:0 etc/.kollet-new = half`,
		`{"command": "", "config_files": [{"source": "/var/lib/kolla/config_files/f", "dest": "/etc/f", "owner": "root", "perm": "0600"}]}`)
	check(t, err)
	if exists(filepath.Join(root, "etc/.kollet-new")) {
		t.Error("the half-written file is still there")
	}
}
