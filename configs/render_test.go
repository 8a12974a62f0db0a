package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/configs"
)

// tree writes files below a new directory and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, body := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error does not say %q:\n%v", part, err)
		}
	}
}

var novaOverrides = []string{"global.conf", "nova.conf", "nova/{service}.conf", "nova/{host}/nova.conf", "nova/{host}/{service}.conf"}

func TestOverridesWinInOrder(t *testing.T) {
	steps := []string{"global.conf", "nova.conf", "nova/nova-compute.conf", "nova/compute-01/nova.conf", "nova/compute-01/nova-compute.conf"}
	files := map[string]string{"nova/compute-02/nova.conf": "winner = another host\n", "nova/nova-api.conf": "winner = another service\n"}
	f := configs.File{Where: "w", Content: "[DEFAULT]\nwinner = template\nuntouched = yes\n", Format: "ini", Overrides: novaOverrides}
	want := "template"
	for i := -1; i < len(steps); i++ {
		if i >= 0 {
			files[steps[i]] = "winner = " + steps[i] + "\n"
			want = steps[i]
		}
		renderer := newRenderer(t, configs.Inputs{Overrides: tree(t, files)})
		out := render(t, renderer, "nova-compute", f)
		if got := string(out.Content); got != "[DEFAULT]\nwinner = "+want+"\nuntouched = yes\n" {
			t.Errorf("want %s to win, got:\n%s", want, got)
		}
	}
}

func TestTheLastOverrideReplacesATextFile(t *testing.T) {
	f := configs.File{Where: "w", Template: "qemu.conf", Format: "text", Overrides: []string{"nova/qemu.conf", "nova/{host}/qemu.conf"}}
	files := map[string]string{"nova/qemu.conf": "user = \"{{ .vars.who }}\"\n"}
	in := configs.Inputs{Vars: map[string]any{"who": "someone"}, Overrides: tree(t, files)}
	if got := string(render(t, newRenderer(t, in), "nova-libvirt", f).Content); got != "user = \"someone\"\n" {
		t.Errorf("got %q", got)
	}
	files["nova/compute-01/qemu.conf"] = "# mine\n"
	in.Overrides = tree(t, files)
	if got := string(render(t, newRenderer(t, in), "nova-libvirt", f).Content); got != "# mine\n" {
		t.Errorf("got %q", got)
	}
}

func TestTemplatesOfTheOperatorWin(t *testing.T) {
	in := configs.Inputs{Templates: tree(t, map[string]string{"qemu.conf": "mine\n"})}
	r := newRenderer(t, in)
	if got := string(render(t, r, "nova-libvirt", configs.File{Where: "w", Template: "qemu.conf"}).Content); got != "mine\n" {
		t.Errorf("got %q", got)
	}
	_, err := r.Render("s", configs.File{Where: "services.s.config[0]", Template: "qemu.cnf"})
	wantError(t, err, "services.s.config[0]", `no template "qemu.cnf"`, "did you mean qemu.conf?")
	in.Templates = tree(t, map[string]string{"qemu.conf.tmpl": "mine\n"})
	_, err = newRenderer(t, in).Render("s", configs.File{Where: "w", Template: "qemu.conf"})
	wantError(t, err, in.Templates+"/qemu.conf.tmpl is not used; rename it to qemu.conf")
	_, err = r.Render("s", configs.File{Where: "w", Template: "../etc/shadow"})
	wantError(t, err, "is outside the templates directory")
}

func TestAllMissingValuesAreReportedWithTheirLines(t *testing.T) {
	r := newRenderer(t, configs.Inputs{
		Vars:      map[string]any{"rabbit_port": 5672, "nothing": nil},
		Secrets:   map[string]string{"rabbit_password": "hunter22"},
		Overrides: tree(t, map[string]string{"nova.conf": "[libvirt]\nvirt_type = {{ .vars.virt_tpye }}\n"}),
		Templates: tree(t, map[string]string{"nova.conf": "[DEFAULT]\n\nhost = {{ .vars.rabbit_host }}\nport = {{ .vars.rabit_port }}\n{{ if .vars.nothing }}{{ end }}\npassword = {{ secret \"rabit_password\" }}\nip = {{ required \"set my_ip\" \"\" }}\n"}),
	})
	_, err := r.Render("nova-compute", configs.File{Where: "services.nova-compute.config[0]", Template: "nova.conf", Format: "ini", Overrides: novaOverrides})
	wantError(t, err,
		`nova.conf:3: services.nova-compute.config[0]: variable "rabbit_host" is not set; set vars.rabbit_host in the node file`,
		`nova.conf:4: services.nova-compute.config[0]: variable "rabit_port" is not set; set vars.rabit_port in the node file; did you mean rabbit_port?`,
		`nova.conf:5: services.nova-compute.config[0]: variable "nothing" is not set`,
		`nova.conf:6: services.nova-compute.config[0]: secret "rabit_password" is not set; set secrets.rabit_password in the node file; did you mean rabbit_password?`,
		`nova.conf:7: services.nova-compute.config[0]: set my_ip`,
		`nova.conf:2: services.nova-compute.config[0]: variable "virt_tpye" is not set`,
	)
	if n := strings.Count(err.Error(), "\n") + 1; n != 6 {
		t.Errorf("got %d problems, want 6:\n%v", n, err)
	}
}

func TestErrorsOfTemplates(t *testing.T) {
	in := configs.Inputs{
		Vars:     map[string]any{"list": []any{"a"}, "map": map[string]any{"a": 1}},
		Instance: map[string]any{"v1": map[string]any{"region": nil}},
		Secrets:  map[string]string{"key": "line one\nline two", "pass": "hunter22"},
	}
	for _, c := range []struct{ name, body, want string }{
		{"unknown function", "\n{{ urlescpe .vars.list }}", "w.content:2: w: there is no function urlescpe; did you mean urlescape?"},
		{"syntax", "x\n{{ if }}", "w.content:2: w: missing value for if"},
		{"never ended", "{{ if true }}", "w.content:1: w: unexpected EOF"},
		{"no such field", "{{ .var.list }}", "w.content:1: w: there is no .var; expected .vars"},
		{"no such key of a map", "{{ .vars.map.b }}", `w.content:1: w: .vars.map has no key "b"`},
		{"no such instance data", "a\n{{ .instance.v1.region }}", "w.content:2: w: the machine's instance data has no v1.region"},
		{"nothing", "{{ coalesce \"\" \"\" }}", "w: line 1 of the result has an expression without a value"},
		{"several lines in one", "[a]\nx = {{ secret \"key\" }}", `w.content:2: w: error calling secret: secret "key" has several lines`},
		{"a secret in an error", "\n{{ fail (secret \"pass\") }}", "w.content:2: w: <secret pass>"},
		{"not deterministic", "{{ now }}", "there is no function now"},
		{"leaks", "{{ env \"HOME\" }}", "there is no function env"},
		{"bad INI", "[a]\nx = 1\nwhat is this {{ secret \"pass\" }}", "w.content as rendered:3: w: expected key = value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newRenderer(t, in).Render("s", configs.File{Where: "w", Content: c.body, Format: "ini"})
			wantError(t, err, c.want)
			if strings.Contains(err.Error(), "hunter22") {
				t.Errorf("the error has a secret in it: %v", err)
			}
		})
	}
}

func TestFilesThatAreWrong(t *testing.T) {
	r := newRenderer(t, configs.Inputs{Overrides: tree(t, map[string]string{"bad.conf": "[a\n\nword\n"})})
	for _, c := range []struct {
		name string
		file configs.File
		want string
	}{
		{"unknown format", configs.File{Content: "x", Format: "yaml"}, `format is "yaml"; expected ini or text`},
		{"override outside", configs.File{Content: "x", Overrides: []string{"../x"}}, "is outside the overrides directory"},
		{"bad override", configs.File{Content: "[a]\n", Format: "ini", Overrides: []string{"bad.conf"}}, "bad.conf:1: w: expected a section"},
		{"bad override, another line", configs.File{Content: "[a]\n", Format: "ini", Overrides: []string{"bad.conf"}}, "bad.conf:3: w: expected key = value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.file.Where = "w"
			_, err := r.Render("s", c.file)
			wantError(t, err, c.want)
		})
	}
}

func TestEmptyFile(t *testing.T) {
	for _, format := range []string{"text", "ini"} {
		if out := render(t, newRenderer(t, configs.Inputs{}), "s", configs.File{Where: "w", Format: format}); out.Omitted || len(out.Content) > 0 {
			t.Errorf("%s: got %+v", format, out)
		}
	}
}

func TestOptionalFiles(t *testing.T) {
	r := newRenderer(t, configs.Inputs{Vars: map[string]any{"on": false}})
	for _, format := range []string{"ini", "text"} {
		f := configs.File{Where: "w", Content: "\n{{ if .vars.on }}x = 1{{ end }}\n", Format: format}
		if render(t, r, "s", f).Omitted {
			t.Errorf("%s: left out, and it is not optional", format)
		}
		f.Optional = true
		if !render(t, r, "s", f).Omitted {
			t.Errorf("%s: not left out", format)
		}
	}
}

func TestExpand(t *testing.T) {
	r := newRenderer(t, configs.Inputs{
		Vars:     map[string]any{"port": 5672},
		Secrets:  map[string]string{"pass": "hunter22"},
		Instance: map[string]any{"v1": map[string]any{"region": "East"}},
	})
	for in, want := range map[string]string{
		"plain": "plain", "{{ .vars.port }}": "5672", "{{ .host }}-{{ .service }}": "compute-01-s", "{{ .instance.v1.region }}": "East",
	} {
		if got, err := r.Expand("s", "services.s.command[0]", in); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
	}
	_, err := r.Expand("s", "services.s.environment.PASS", `{{ secret "pass" }}`)
	wantError(t, err, "services.s.environment.PASS: ", "a secret cannot be used here", "use it in a config file (config:)")
	_, err = r.Expand("s", "services.s.environment.PASS", `{{ .vars.prot }}`)
	if want := `services.s.environment.PASS: variable "prot" is not set; set vars.prot in the node file; did you mean port?`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTemplatesCannotChangeWhatTheNextOneSees(t *testing.T) {
	vars := map[string]any{"a": 1, "gone": nil}
	r := newRenderer(t, configs.Inputs{Vars: vars})
	if _, err := r.Render("s", configs.File{Where: "w", Content: "{{ .vars.b }}"}); err == nil {
		t.Fatal("no error for a missing variable")
	}
	if _, err := r.Render("s", configs.File{Where: "w", Content: "{{ .vars.b }}"}); err == nil {
		t.Error("the empty value for a missing variable was kept")
	}
	if len(vars) != 2 {
		t.Errorf("the caller's variables changed to %v", vars)
	}
}

func TestNewRefuses(t *testing.T) {
	file := filepath.Join(tree(t, map[string]string{"f": ""}), "f")
	_, err := configs.New(configs.Inputs{Overrides: file, Templates: file})
	wantError(t, err, "is not a host name", file+" is a file; expected a directory")
	for _, host := range []string{"..", "a/b"} {
		_, err := configs.New(configs.Inputs{Host: host})
		wantError(t, err, "is not a host name")
	}
}
