package configs_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/ini"
)

func TestExplain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, body string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	common := write("common.conf", "# of all\n[web]\ndebug = true\nport = {{ .vars.port }}\n")
	own := write("web.conf", "[Web]\nport = 81\nname = one\nname = two\n[more]\npassword = {{ secret \"token\" }}\n")
	base := `host = {{ .host }}
{{- if .vars.port }}
{{- range list "a" "b" }}
[part {{ . }}]
letter = {{ . }}
{{- end }}

[web]
debug = false
{{ "many\nlines" | indent 2 | printf "text = %s" }}
port = 80
{{- end }}
last = 1
{{ define "unused" }}x{{ end -}}
after = {{ template "unused" }}
`
	r := newRenderer(t, configs.Inputs{Vars: map[string]any{"port": 82}, Secrets: map[string]string{"token": "t0p-s3cret"}, Overrides: dir})
	f := configs.File{Where: "c", Content: base, Name: "web.conf", Format: "ini", Overrides: []string{"common.conf", "none.conf", "web.conf"}}
	got, err := r.Explain("web", f)
	if err != nil {
		t.Fatal(err)
	}
	at := func(file string, line int) configs.Origin { return configs.Origin{File: file, Line: line} }
	const inline = "c.content"
	want := []configs.Setting{
		{Section: "DEFAULT", Key: "host", Values: []string{"compute-01"}, Origin: at(inline, 1)},
		{Section: "part a", Key: "letter", Values: []string{"a"}, Origin: at(inline, 5)},
		{Section: "part b", Key: "letter", Values: []string{"b"}, Origin: at(inline, 5)},
		{Section: "web", Key: "debug", Values: []string{"true"}, Origin: at(common, 3), Replaced: []configs.Replaced{{[]string{"false"}, at(inline, 9)}}},
		{Section: "web", Key: "text", Values: []string{"many\nlines"}, Origin: at(inline, 10)},
		{Section: "web", Key: "port", Values: []string{"81"}, Origin: at(own, 2), Replaced: []configs.Replaced{{[]string{"82"}, at(common, 4)}, {[]string{"80"}, at(inline, 11)}}},
		{Section: "web", Key: "last", Values: []string{"1"}, Origin: at(inline, 13)},
		{Section: "web", Key: "after", Values: []string{"x"}, Origin: at(inline, 15)},
		{Section: "web", Key: "name", Values: []string{"one", "two"}, Origin: at(own, 3)},
		{Section: "more", Key: "password", Values: []string{"<secret token>"}, Origin: at(own, 6)},
	}
	for i := range max(len(got.Settings), len(want)) {
		switch {
		case i >= len(got.Settings):
			t.Errorf("missing: %+v", want[i])
		case i >= len(want):
			t.Errorf("more: %+v", got.Settings[i])
		case len(want[i].Replaced) == 0 && len(got.Settings[i].Replaced) == 0:
			got.Settings[i].Replaced, want[i].Replaced = nil, nil
			fallthrough
		default:
			if !reflect.DeepEqual(got.Settings[i], want[i]) {
				t.Errorf("got %+v, want %+v", got.Settings[i], want[i])
			}
		}
	}
}

func TestExplainText(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(path, []byte("a: {{ b }}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRenderer(t, configs.Inputs{Overrides: dir})
	got, err := r.Explain("web", configs.File{Where: "c", Content: "x\n", Format: "text", Overrides: []string{"policy.yaml"}})
	if want := (configs.Explanation{Origin: configs.Origin{File: path}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

// The explanation of each built-in INI file has what the file has, and lines in which the
// template has the keys.
func TestProfileIsExplained(t *testing.T) {
	p := compute(t)
	r := newRenderer(t, configs.Inputs{Vars: over(p.Vars, map[string]any{"rabbit_host": "h", "auth_url": "http://k", "ovn_sb_connection": "tcp:h:6642", "ovn_encap_ip": "10.1.0.21", "nova_metadata_host": "h"}), Secrets: secrets})
	explained := 0
	for name, s := range p.Services {
		for i, c := range s.Config {
			if c.Format != "ini" || c.Template == "" {
				continue
			}
			template, err := configs.Builtin(c.Template)
			if err != nil {
				t.Fatal(err)
			}
			source := strings.Split(string(template), "\n")
			out := render(t, r, name, file(s, i))
			e, err := r.Explain(name, file(s, i))
			if err != nil {
				t.Fatal(err)
			}
			public, err := ini.Parse(out.Public)
			if err != nil {
				t.Fatal(err)
			}
			var again ini.File
			for _, s := range e.Settings {
				explained++
				again.Merge(&ini.File{Sections: []*ini.Section{{Name: s.Section, Keys: []*ini.Key{{Name: s.Key, Values: s.Values}}}}})
				if line := source[s.Line-1]; !strings.Contains(line, s.Key) {
					t.Errorf("%s, %s: [%s] %s comes from line %d, which is %q", name, c.Dest, s.Section, s.Key, s.Line, line)
				}
			}
			if got, want := string(again.Bytes()), string(public.Bytes()); got != want {
				t.Errorf("%s, %s: got\n%s\nwant\n%s", name, c.Dest, got, want)
			}
		}
	}
	if explained < 50 {
		t.Errorf("only %d settings were explained", explained)
	}
}
