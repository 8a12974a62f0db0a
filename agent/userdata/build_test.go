package userdata_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/userdata"
)

const nodeFile = "profile: none\nservices:\n  web: {image: web:1}\n"

// nodeWith writes a node file and other files, by path, into a tree.
func nodeWith(t *testing.T, files map[string]string) userdata.Node {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("node.yaml", nodeFile)
	for name, content := range files {
		write(name, content)
	}
	return userdata.Node{NodeFile: filepath.Join(dir, "node.yaml"), Tree: dir}
}

func decode(t *testing.T, s string) string {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The same recipe gives the same bytes, and Read returns what Build was given.
func TestBuildIsDeterministicAndReadable(t *testing.T) {
	node := nodeWith(t, map[string]string{"config/.nova.conf.swp": "left by an editor", ".git/config": "hidden", "secrets/one": "s3cr3t-value", "extra/a.conf": "a = 1\n"})
	parts := []userdata.Part{{Type: "text/cloud-boothook", Name: "hook", Data: []byte("#cloud-boothook\n#!/bin/sh\n")}}
	for name, r := range map[string]userdata.Recipe{
		"plain":   {Node: node},
		"message": {Node: node, Format: userdata.Multipart},
		"parts":   {Node: node, Parts: parts, Stored: []userdata.Part{{Name: "b", Data: []byte{0, 255}}}},
		"gzip":    {Node: node, Parts: parts, Gzip: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := userdata.Build(r)
			again, err2 := userdata.Build(r)
			if err != nil || err2 != nil || !bytes.Equal(m.Data, again.Data) {
				t.Fatalf("%v, %v, or not the same twice", err, err2)
			}
			for _, form := range [][]byte{m.Data, []byte(base64.StdEncoding.EncodeToString(m.Data))} {
				read, was64, err := userdata.Read("x", form)
				if err != nil {
					t.Fatal(err)
				}
				if was64 != !bytes.Equal(form, m.Data) || read.Gzip != r.Gzip || read.Format != m.Format || len(read.Parts) != len(m.Parts) {
					t.Errorf("base64 %v, %+v", was64, read)
				}
				for i, p := range read.Parts {
					want := m.Parts[i]
					if m.Format == userdata.CloudConfig {
						want.Name = ""
					}
					if !reflect.DeepEqual(p, want) {
						t.Errorf("got %+v, want %+v", p, want)
					}
				}
				if err := read.Problems("x"); err != nil {
					t.Error(err)
				}
				report, _ := json.Marshal(read.Report())
				if bytes.Contains(report, []byte("s3cr3t-value")) || !bytes.Contains(report, []byte(`{"path":"/etc/kollet/secrets/one","owner":"root:root","permissions":"0400","size":12}`)) {
					t.Errorf("report %s", report)
				}
				if bytes.Contains(report, []byte(".swp")) || bytes.Contains(report, []byte(".git")) || !bytes.Contains(report, []byte("/etc/kollet/extra/a.conf")) {
					t.Errorf("report %s", report)
				}
			}
		})
	}
}

// The boundary depends on the content, and no part contains it.
func TestBoundary(t *testing.T) {
	seen := map[string]bool{}
	for _, script := range []string{"#!/bin/sh\n", "#!/bin/sh\n\n", "#!/bin/bash\n"} {
		m, err := userdata.Build(userdata.Recipe{Node: nodeWith(t, nil), Parts: []userdata.Part{{Type: userdata.ShellScript, Name: "a", Data: []byte(script)}}})
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := bytes.Cut(m.Data, []byte(`boundary="`))
		boundary, _, _ := bytes.Cut(rest, []byte(`"`))
		if seen[string(boundary)] || bytes.Count(m.Data, boundary) != 4 {
			t.Errorf("boundary %s in\n%s", boundary, m.Data)
		}
		seen[string(boundary)] = true
	}
}

// The limit applies to the base64 form, exactly.
func TestLimit(t *testing.T) {
	node := nodeWith(t, nil)
	m, err := userdata.Build(userdata.Recipe{Node: node})
	if err != nil {
		t.Fatal(err)
	}
	size := base64.StdEncoding.EncodedLen(len(m.Data))
	if _, err := userdata.Build(userdata.Recipe{Node: node, Limit: size}); err != nil {
		t.Error(err)
	}
	_, err = userdata.Build(userdata.Recipe{Node: node, Limit: size - 1})
	if err == nil || !strings.Contains(err.Error(), "too large") || !strings.Contains(err.Error(), " with --gzip") || strings.Contains(err.Error(), "Nova") {
		t.Errorf("got %v", err)
	}
	_, err = userdata.Build(userdata.Recipe{Node: node, Limit: 10, Gzip: true, Stored: []userdata.Part{{Name: "big", Data: bytes.Repeat([]byte("0123456789"), 1000)}}})
	if err == nil || strings.Contains(err.Error(), "with --gzip") {
		t.Fatalf("got %v", err)
	}
	// Compressed, a repetitive file is not the largest.
	lines := strings.Split(err.Error(), "\n")
	if len(lines) < 4 || !strings.HasSuffix(lines[2], "/var/lib/kollet/first-boot") {
		t.Errorf("got %q", lines)
	}
}

func TestFormat(t *testing.T) {
	node := nodeWith(t, nil)
	script := []userdata.Part{{Type: userdata.ShellScript, Name: "a", Data: []byte("#!/bin/sh\n")}}
	mail := nodeWith(t, nil)
	mail.Files = []userdata.File{{Path: "/a", Owner: "root:root", Perm: 0o600, Data: []byte("MIME-Version: 1.0\n")}}
	for name, c := range map[string]struct {
		recipe userdata.Recipe
		want   userdata.Format
		err    string
	}{
		"one part":            {userdata.Recipe{Node: node, Format: userdata.Auto}, userdata.CloudConfig, ""},
		"two":                 {userdata.Recipe{Node: node, Format: userdata.Auto, Parts: script}, userdata.Multipart, ""},
		"asked for":           {userdata.Recipe{Node: node, Format: userdata.Multipart}, userdata.Multipart, ""},
		"too many":            {userdata.Recipe{Node: node, Format: userdata.CloudConfig, Parts: script}, "", "1 others were given"},
		"taken for a message": {userdata.Recipe{Node: mail, Format: userdata.Auto}, userdata.Multipart, ""},
		"taken for, in spite": {userdata.Recipe{Node: mail, Format: userdata.CloudConfig}, "", "Mime-Version"},
	} {
		m, err := userdata.Build(c.recipe)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v", name, err)
			}
			continue
		}
		if err != nil || m.Format != c.want {
			t.Errorf("%s: got %v, %v", name, m, err)
		}
	}
}

func TestTypes(t *testing.T) {
	for content, want := range map[string]string{
		"#cloud-config\n": "text/cloud-config", "\n  #Cloud-Config\n": "text/cloud-config", "#cloud-config-archive": "text/cloud-config-archive",
		"#cloud-config-jsonp": "text/cloud-config-jsonp", "#include\n": "text/x-include-url", "#include-once\n": "text/x-include-once-url",
		"#!/bin/sh": "text/x-shellscript", "#part-handler\n": "text/part-handler", "#cloud-boothook\n": "text/cloud-boothook",
		"## template: jinja\n#cloud-config\n": "text/jinja2", "": "", "hello": "", "# comment": "",
	} {
		if got := userdata.TypeOf([]byte(content)); got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
	for name, want := range map[string]string{"shellscript": "text/x-shellscript", "text/x-shellscript": "text/x-shellscript", "Include-URL": "text/x-include-url", "cloud-config": "text/cloud-config"} {
		if got := userdata.ParseType(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"cloud-confg", "application/pdf", ""} {
		if got := userdata.ParseType(name); got != "" {
			t.Errorf("%s: got %q, want none", name, got)
		}
	}
}
