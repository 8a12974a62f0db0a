package configs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/report"
)

func TestUnusedOverrides(t *testing.T) {
	overrides := tree(t, map[string]string{
		"global.conf":                 "",
		"nova/nova-compute.conf":      "",
		"nova/compute-01/nova.conf":   "",
		"nova/compute-02/nova.conf":   "", // another node's: one tree may serve a fleet
		".git/config":                 "",
		".hidden":                     "",
		"nova/nova_compute.conf":      "",
		"nova.cnf":                    "",
		"nova/Compute-01.x/nova.conf": "",
		"swift/proxy-server.conf":     "",
	})
	r := newRenderer(t, configs.Inputs{Overrides: overrides})
	render(t, r, "nova-compute", configs.File{Where: "w", Content: "[a]\nx = 1\n", Format: "ini", Overrides: novaOverrides})
	got := errors.Join(r.Unused()...)
	wantError(t, got,
		overrides+"/nova/nova_compute.conf: no service has a config file with this override; did you mean nova/nova-compute.conf?",
		overrides+"/nova.cnf: no service has a config file with this override; did you mean nova.conf?",
		overrides+`/nova/Compute-01.x/nova.conf: is for host "Compute-01.x", and this host is "compute-01"`,
		overrides+"/swift/proxy-server.conf: no service has a config file with this override",
	)
	if n := len(r.Unused()); n != 4 {
		t.Errorf("got %d errors, want 4:\n%v", n, got)
	}
}

func TestUnusedVariables(t *testing.T) {
	r := newRenderer(t, configs.Inputs{
		Place:     func(key string) report.Place { return report.Place{File: "node.yaml", Line: len(key)} },
		Vars:      map[string]any{"vir_type": "kvm", "bridge_mappings": "a:b", "mine": 1, "override": 1, "probe": 1, "untaken": 1, "got": 1, "lost": 1, "port": 1, "prt": 1},
		OwnVars:   []string{"vir_type", "bridge_mappings", "mine", "override", "probe", "untaken", "got", "lost", "port", "prt"},
		KnownVars: []string{"port"},
		Overrides: tree(t, map[string]string{"x.conf": "[a]\ny = {{ $.vars.override }}\n"}),
	})
	render(t, r, "s", configs.File{Where: "w", Format: "ini", Overrides: []string{"x.conf"},
		Content: "[a]\nx = {{ .vars.mine }}{{ if false }}{{ .vars.untaken }}{{ end }}{{ get .vars \"got\" }}\n"})
	if _, err := r.Expand("s", "w", "{{ .vars.probe }}"); err != nil {
		t.Fatal(err)
	}
	got := errors.Join(r.Unused()...)
	wantError(t, got, "node.yaml:13: vars.vir_type: nothing uses this variable; did you mean virt_type?", "node.yaml:9: vars.lost: nothing uses this variable",
		"node.yaml:8: vars.prt: nothing uses this variable; did you mean port?")
	if n := len(r.Unused()); n != 3 {
		t.Errorf("got %d errors, want 3:\n%v", n, got)
	}
}

// Of very many, as a generated node file may have, only some are named.
func TestManyUnusedVariables(t *testing.T) {
	names := make([]string, 200_000)
	for i := range names {
		names[i] = fmt.Sprintf("unused_%d", i)
	}
	errs := newRenderer(t, configs.Inputs{OwnVars: names}).Unused()
	if len(errs) != 51 {
		t.Fatalf("got %d errors", len(errs))
	}
	wantError(t, errs[50], "vars: nothing uses 199950 more variables")
}

func TestATemplateThatTakesAllVariablesUsesAll(t *testing.T) {
	for _, body := range []string{"{{ toJson .vars }}", "{{ range $k, $v := .vars }}{{ $k }}{{ end }}", "{{ with .vars }}{{ .mine }}{{ end }}"} {
		r := newRenderer(t, configs.Inputs{Vars: map[string]any{"mine": 1}, OwnVars: []string{"mine"}})
		render(t, r, "s", configs.File{Where: "w", Content: body})
		if errs := r.Unused(); len(errs) > 0 {
			t.Errorf("%s: %v", body, errs)
		}
	}
}

func TestUnusedWithoutADirectory(t *testing.T) {
	for _, dir := range []string{"", "/no/such/directory"} {
		if errs := newRenderer(t, configs.Inputs{Overrides: dir}).Unused(); len(errs) > 0 {
			t.Errorf("%q: %v", dir, errs)
		}
	}
}

func TestProfileNames(t *testing.T) {
	_, err := configs.Profile("storage")
	wantError(t, err, `no profile "storage"`, "expected compute, or none")
	if got := strings.Join(configs.Profiles(), " "); got != "compute" {
		t.Errorf("got %q", got)
	}
}
