package main

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
)

// generator makes random trees and configurations, of which most can be applied.
type generator struct{ *rand.Rand }

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

// Everything that may be in a root. Links are root's and relative.
const (
	sources = `0640 0:0 var/lib/kolla/config_files/a.conf = a
		0400 7:8 var/lib/kolla/config_files/b.conf = b
		0400 0:0 var/lib/kolla/config_files/.hidden.conf = h
		0400 0:0 var/lib/kolla/config_files/[f = bracket
		0777 0:0 var/lib/kolla/config_files/link -> a.conf
		0777 0:0 var/lib/kolla/config_files/dangling -> nowhere
		2750 42436:42400 var/lib/kolla/config_files/d/
		0444 0:42400 var/lib/kolla/config_files/d/one = 1
		4755 42436:42436 var/lib/kolla/config_files/d/sub/two = 2
		0777 0:0 var/lib/kolla/config_files/d/linked -> one
		0777 0:0 var/lib/kolla/config_files/d/dir -> sub`
	image = `0644 0:0 etc/nova/nova.conf = default
		0600 42436:42436 etc/nova/old = old
		0600 0:0 etc/d = a file
		0777 0:0 etc/link -> nova
		0777 0:0 etc/broken -> nowhere
		0700 0:0 etc/in/d/one = old
		0777 0:0 etc/in/d/sub -> ../../nova
		0600 42427:42427 srv/data/disk = image
		0600 0:0 srv/data/disk.log = log
		0700 0:0 srv/data/.ssh/
		0400 0:0 srv/data/.ssh/key = key
		0777 0:0 srv/data/escape -> ../../etc/passwd
		0777 0:0 srv/data/nowhere -> x
		0600 0:0 run/fifo |
		0600 0:0 run/there = kept
		0777 0:0 run/link -> there`
)

func (g generator) tree() string {
	var tree strings.Builder
	tree.WriteString("0755 0:0 etc/\n0755 0:0 var/lib/kolla/config_files/\n")
	for line := range strings.Lines(sources + "\n" + image) {
		if g.chance(85) {
			tree.WriteString(line)
		}
	}
	if g.chance(10) {
		tree.WriteString("\n0777 0:0 var/lib/kolla/config_files/d/lost -> ../lost")
	}
	if g.chance(30) {
		tree.WriteString("\n0755 0:0 usr/local/bin/kolla_set_configs = python")
	}
	return tree.String()
}

// config returns a config.json or a config.yaml, with its name. Beside a config.yaml, a
// config.json means nothing.
func (g generator) config() (name, text string) {
	c := map[string]any{"command": g.one("", "nova-compute", "a  \"b c\" ä\n")}
	for _, section := range []struct {
		key   string
		entry func() map[string]any
	}{{"directories", g.directory}, {"files", g.file}, {"config_files", g.copied}, {"permissions", g.permission}} {
		var entries []any
		for range g.IntN(4) {
			entries = append(entries, g.odd(section.entry()))
		}
		if len(entries) > 0 {
			c[section.key] = entries
		}
	}
	name = "config.json"
	data, err := json.MarshalIndent(g.odd(c), "", " ")
	if err != nil {
		return name, err.Error()
	}
	if g.chance(40) {
		name, data = "config.yaml", []byte(g.yaml(c))
	}
	if g.chance(15) { // a byte is another one
		data[g.IntN(len(data))] = g.one("\n", "\xff", "\\", `"`, ",", "x", "}")[0]
	}
	return name, string(data)
}

// odd sometimes adds a key, or takes one away.
func (g generator) odd(entry map[string]any) map[string]any {
	switch g.IntN(150) {
	case 0:
		entry["_comment"] = "manually"
	case 1:
		entry["permission"] = []any{}
	case 2:
		delete(entry, g.one("command", "owner", "perm", "dest", "path", "source"))
	}
	return entry
}

func (g generator) owner() string {
	if g.chance(1) {
		return g.one("noah", "nova:noah", "42436", "nogroup")
	}
	return g.one("root", "nova", "nova:kolla", "qemu:", "nogroup:nova")
}

func (g generator) perm() string {
	return g.one("0600", "644", "0o640", "2755", "0444", "0000", "4711", "0o6755")
}

func (g generator) directory() map[string]any {
	return map[string]any{"path": g.one("/srv/new/deep", "/etc/nova", "/etc/link", "/etc/link/below", "/var/log/kolla/"), "owner": g.owner(), "perm": g.perm()}
}

func (g generator) file() map[string]any {
	path := g.one("/run/new", "/run/there", "/run/fifo", "/etc/new")
	if g.chance(5) {
		path = g.one("/run/link", "/etc/link/new", "/etc/nova", "/nowhere/x", "/etc/broken")
	}
	return map[string]any{"path": path, "owner": g.owner(), "perm": g.perm()}
}

func (g generator) copied() map[string]any {
	const from = "/var/lib/kolla/config_files/"
	entry := map[string]any{"source": from + g.one("a.conf", "b.conf", "link", "d", "d/", "d/sub", "d*/", "[f"), "owner": g.owner(), "perm": g.perm()}
	entry["dest"] = g.one("/etc/nova/nova.conf", "/etc/in/", "/etc/in", "/etc/in/d", "/etc/d", "/etc/link", "/etc/link/x", "/etc/broken", "/opt/new/", "/opt/new/x")
	if g.chance(25) { // several sources need a directory
		entry["source"] = from + g.one("*.conf", "[!a]*", "?.conf", ".*", "[f", "[]x]*", "d/[!-n]*", "nothing*", "*/one")
		entry["dest"] = g.one("/etc/in/", "/opt/new/", "/etc/link/")
	}
	if g.chance(15) {
		entry["source"] = from + g.one("absent", "dangling", "a.conf/", "absent/")
	}
	for _, key := range []string{"merge", "preserve_properties"} {
		if g.chance(50) {
			entry[key] = g.chance(80)
		}
	}
	if g.chance(90) {
		entry["optional"] = g.chance(95)
	}
	if entry["preserve_properties"] == true && g.chance(50) {
		delete(entry, "owner")
		delete(entry, "perm")
	}
	return entry
}

func (g generator) permission() map[string]any {
	entry := map[string]any{"path": g.one("/srv", "/srv/data/", "/srv/*", "/etc/nova/*", "/etc/link", "/run/*", "/run/fifo", "/run_command", "/absent", "/srv/data/disk/"), "owner": g.owner()}
	if g.chance(60) {
		entry["perm"] = g.perm()
	}
	if g.chance(60) {
		entry["recurse"] = g.chance(80)
	}
	if g.chance(50) {
		// Only what Python and package regexp understand alike: TestExcludeAsPython has the differences.
		entry["exclude"] = [][]string{{}, {"disk"}, {`\.log$`}, {"disk", "log"}, {"^/srv/data/[^/]*$"}, {"data"}, {`/\.\w+/`, "key|x"}}[g.IntN(7)]
	}
	return entry
}
