package configs_test

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/configs"
)

func TestWhatPeopleMaySee(t *testing.T) {
	secrets := map[string]string{"pass": "hunter$22@x", "short": "abc"}
	for _, c := range []struct{ name, format, body, want string }{
		{"a secret", "ini", "[a]\npassword = {{ secret \"pass\" }}\n", "[a]\npassword = <secret pass>\n"},
		{"a short secret", "ini", "[a]\npassword = {{ secret \"short\" }}\n", "[a]\npassword = <secret short>\n"},
		{"under a harmless key", "ini", "[a]\nx = {{ secret \"short\" }}\n", "[a]\nx = <secret short>\n"},
		{"in quotes", "text", "auth = \"{{ secret \"pass\" }}\"\n", "auth = \"<secret pass>\"\n"},
		{"escaped", "ini", "[a]\ntransport_url = rabbit://u:{{ secret \"pass\" | urlescape }}@h:5672//\n", "[a]\ntransport_url = rabbit://u:<secret pass>@h:5672//\n"},
		{"of two hosts", "ini", "[a]\nurl = rabbit://u:{{ secret \"pass\" | urlescape }}@h1:5672,u:{{ secret \"short\" }}@h2:5672//\n", "[a]\nurl = rabbit://u:<secret pass>@h1:5672,u:<secret short>@h2:5672//\n"},
		{"turned around", "text", "x{{ range splitList \"\" (secret \"pass\") | reverse }}{{ . }}{{ end }}\n", "x>ssap terces<\n"},
		{"in other letters", "text", "{{ secret \"pass\" | upper }}\n", "<SECRET PASS>\n"},
		{"digested", "text", "{{ secret \"pass\" | sha256sum | trunc 8 }}\n", "1d0c7e24\n"},
		{"pasted", "text", "words hunter$22@x words\n", "words <secret pass> words\n"},
		{"pasted in base64", "text", "words aHVudGVyJDIyQHg= words\n", "words <secret pass> words\n"},
		{"pasted and escaped for a URL", "text", "hunter%2422%40x\n", "<secret pass>\n"},
		{"pasted and escaped for oslo.config", "text", "hunter\\$22@x hunter$$22@x\n", "<secret pass> <secret pass>\n"},
		{"literals under telling keys", "ini", "[a]\nadmin_password = x\nmetadata_proxy_shared_secret = x\nadmin_token=x\nmemcache_secret_key=x\nhmac_keys=x\nkey_file = /x\n",
			"[a]\nadmin_password = <masked>\nmetadata_proxy_shared_secret = <masked>\nadmin_token = <masked>\nmemcache_secret_key = <masked>\nhmac_keys = <masked>\nkey_file = /x\n"},
		{"switches under telling keys", "ini", "[a]\nsend_service_user_token = true\npassword =\n", "[a]\nsend_service_user_token = true\npassword =\n"},
		{"a literal beside a secret", "ini", "[a]\npassword = x{{ secret \"short\" }}\n", "[a]\npassword = <masked>\n"},
		{"a literal of several lines", "ini", "[a]\nkey =\n  one\n  two\n", "[a]\nkey = <masked>\n"},
		{"a literal in a URL", "ini", "[a]\nconnection = mysql://u:p@ss/w:rd@h/nova\nurl = http://h:5000/v3\n", "[a]\nconnection = mysql://u:<masked>@h/nova\nurl = http://h:5000/v3\n"},
		{"literals of two hosts", "ini", "[a]\nurl = rabbit://u:p@h1,u:p@h2/\n", "[a]\nurl = rabbit://u:<masked>@h2/\n"},
		{"a literal in other text", "text", "password=x\n  \"token\": \"x\",\n- passphrase: x\nexport OS_PASSWORD=x\nuser = \"nova\"\n",
			"password=<masked>\n  \"token\": <masked>\n- passphrase: <masked>\nexport OS_PASSWORD=<masked>\nuser = \"nova\"\n"},
		{"a private key", "text", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nx\n", "-----BEGIN RSA PRIVATE KEY-----\n<masked>\n-----END RSA PRIVATE KEY-----\nx\n"},
		{"half a private key", "text", "-----BEGIN PRIVATE KEY-----\nMIIE\n", "-----BEGIN PRIVATE KEY-----\n<masked>\n"},
		{"what needs the value", "text", "{{ index (splitList \"$\" (secret \"pass\")) 1 }}\n", "<5 bytes, not shown>\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRenderer(t, configs.Inputs{Secrets: secrets})
			out := render(t, r, "s", configs.File{Where: "w", Content: c.body, Format: c.format})
			if got := string(out.Public); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

// A secret that is a word of the file is masked there too, and does not change
// placeholders.
func TestSecretsThatAreOrdinaryWords(t *testing.T) {
	r := newRenderer(t, configs.Inputs{Secrets: map[string]string{"a": "secret", "b": "pass", "c": "passage"}})
	out := render(t, r, "s", configs.File{Where: "w", Content: "a secret passage, {{ secret \"b\" }} password\n"})
	if got, want := string(out.Public), "a <secret a> <secret c>, <secret b> <secret b>word\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOverridesAreShownWithoutSecrets(t *testing.T) {
	in := configs.Inputs{Secrets: map[string]string{"pass": "hunter22"}, Overrides: tree(t, map[string]string{
		"a.conf": "[a]\nx = {{ secret \"pass\" }}\ny = hunter22\n",
	})}
	out := render(t, newRenderer(t, in), "s", configs.File{Where: "w", Content: "[a]\n", Format: "ini", Overrides: []string{"a.conf"}})
	if got, want := string(out.Content), "[a]\nx = hunter22\ny = hunter22\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(out.Public), "[a]\nx = <secret pass>\ny = <secret pass>\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRenderingTwiceGivesTheSame(t *testing.T) {
	in := configs.Inputs{Vars: map[string]any{"m": map[string]any{"b": 1, "a": 2, "c": 3, "e": 4, "d": 5}}}
	f := configs.File{Where: "w", Content: "{{ range $k, $v := .vars.m }}{{ $k }}{{ $v }} {{ end }}{{ toJson .vars.m }}"}
	first := render(t, newRenderer(t, in), "s", f)
	for range 20 {
		if again := render(t, newRenderer(t, in), "s", f); string(again.Content) != string(first.Content) {
			t.Fatalf("got %q, then %q", first.Content, again.Content)
		}
	}
}

// Any template either renders or fails with an error that names its file and key,
// and neither the error nor Public contains the secret.
func FuzzRender(f *testing.F) {
	f.Add("[a]\nx = {{ secret \"pass\" }}\n", "x: {{ .vars.a | default 3 }}\n", true)
	f.Add("{{ define \"b\" }}{{ .host }}{{ end }}{{ fail (secret \"pass\") }}", "", false)
	f.Add("{{ with .vars }}{{ .missing }}{{ end }}{{ $.vars.b.c }}", "{{ oslo (secret \"pass\") }}", true)
	f.Add("{{ b64enc (secret \"pass\") | trunc 9 }} url = a://b:{{ urlescape (secret \"pass\") }}@c", "{{ hostport .host 1 | quote }}", false)
	const value = "s3cr3t$v@lue"
	f.Fuzz(func(t *testing.T, body, override string, isINI bool) {
		for _, unbounded := range []string{"repeat", "until", "seq", "indent", "template", "block"} {
			if strings.Contains(body+override, unbounded) {
				return
			}
		}
		format := "text"
		if isINI {
			format = "ini"
		}
		in := configs.Inputs{
			Vars:      map[string]any{"a": 1, "b": map[string]any{"c": "d"}},
			Secrets:   map[string]string{"pass": value},
			Overrides: tree(t, map[string]string{"f.conf": override}),
		}
		out, err := newRenderer(t, in).Render("s", configs.File{Where: "services.s.config[0]", Content: body, Format: format, Overrides: []string{"f.conf"}})
		if err != nil && body != "" {
			for line := range strings.Lines(err.Error()) {
				if !strings.Contains(line, "services.s.config[0]") {
					t.Errorf("does not say where: %s", line)
				}
			}
		}
		if err != nil && strings.Contains(err.Error(), value) {
			t.Errorf("the secret is in %v", err)
		}
		if strings.Contains(string(out.Public), value) {
			t.Errorf("the secret is in %s", out.Public)
		}
	})
}
