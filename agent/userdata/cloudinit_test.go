package userdata_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/userdata"
)

// split is what cloud-init made of user-data; see testdata/split.py.
type split struct {
	Parts []struct {
		Type, Name string
		Data       []byte
	}
	Config  map[string]any
	Scripts []string
	stored  string // directory
}

// cloudInit passes user-data to Debian's cloud-init, which must be installed.
func cloudInit(t *testing.T, data []byte) split {
	t.Helper()
	dir := t.TempDir()
	out := split{stored: filepath.Join(dir, "parts")}
	data = bytes.ReplaceAll(data, []byte(userdata.StoredDir), []byte(out.stored)) // in the part handler
	file := filepath.Join(dir, "user-data")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/bin/python3", "testdata/split.py", file, filepath.Join(dir, "cloud"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	result, err := cmd.Output()
	if err != nil {
		t.Fatalf("cloud-init (make deps installs it): %v\n%s", err, &stderr)
	}
	if err := json.Unmarshal(result, &out); err != nil {
		t.Fatalf("%v\n%s", err, result)
	}
	return out
}

// awkward has contents that YAML parsers are known to read differently.
var awkward = []string{
	"plain\n", "no newline", "", "\n", "\n\nlines before", "lines after\n\n\n", "  indented\n", "\ttab\n", "a\tb\n", " ", "trailing blanks  \n x \n",
	"crlf\r\n", "\r", "nul\x00", "\xff\xfe", "é ü ß\n", "next\u0085line", "line\u2028separator", "\ufeffbom", "emoji \U0001f600\n",
	"# comment\n", "- list\n", "key: value\n", "'\"\\\n", "--- \n...\n", "%YAML 1.2\n", "yes", "0600", "null", "~", "{{ .vars.x }}\n", "!!binary x", "a: |\n  b\n", strings.Repeat("long ", 500),
}

// cloud-init reads exactly the files that were given.
func TestCloudInitReadsFilesBack(t *testing.T) {
	node := nodeWith(t, nil)
	for i, content := range awkward {
		node.Files = append(node.Files, userdata.File{Path: "/f/" + string(rune('A'+i)), Owner: "nova:nova", Perm: 0o640, Data: []byte(content)})
	}
	for _, format := range []userdata.Format{userdata.CloudConfig, userdata.Multipart} {
		for _, gzip := range []bool{false, true} {
			m, err := userdata.Build(userdata.Recipe{Node: node, Format: format, Gzip: gzip})
			if err != nil {
				t.Fatal(err)
			}
			var config struct {
				WriteFiles []struct {
					Path, Owner, Permissions, Encoding, Content string
					Defer                                       bool
				} `json:"write_files"`
			}
			again, _ := json.Marshal(cloudInit(t, m.Data).Config)
			if err := json.Unmarshal(again, &config); err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, f := range config.WriteFiles {
				at, ok := strings.CutPrefix(f.Path, "/f/")
				if !ok {
					if f.Owner != "root:root" || f.Defer {
						t.Errorf("%+v", f)
					}
					continue
				}
				found++
				content := f.Content
				if f.Encoding == "b64" {
					content = decode(t, content)
				}
				if want := awkward[[]rune(at)[0]-'A']; content != want {
					t.Errorf("%s, gzip %v: got %q, want %q", format, gzip, content, want)
				}
				if f.Owner != "nova:nova" || f.Permissions != "0640" || !f.Defer {
					t.Errorf("%+v", f)
				}
			}
			if found != len(awkward) {
				t.Errorf("%d files of %d", found, len(awkward))
			}
		}
	}
}

// All parts arrive, the operator's lists are kept, and kollet's command is the last,
// because cloud-init reports the last one's exit status.
func TestCloudInitSplitsTheMessage(t *testing.T) {
	binary := []byte("\x00\x01\xff\r\n--kollet\n")
	m, err := userdata.Build(userdata.Recipe{
		Node: nodeWith(t, nil),
		Parts: []userdata.Part{
			{Type: userdata.ShellScript, Name: "z/tune it.sh", Data: []byte("#!/bin/sh\necho é\n")},
			{Type: userdata.CloudConfigType, Name: "one.yaml", Data: []byte("#cloud-config\nruncmd: [first]\npackages: [a]\nwrite_files: [{path: /one, content: x}]\n")},
			{Type: userdata.CloudConfigType, Name: "two.yaml", Data: []byte("#cloud-config\nruncmd: [second]\npackages: [b]\noutput: {all: '>> /mine'}\n")},
			{Type: userdata.ShellScript, Name: "a.sh", Data: []byte("#!/bin/sh\r\ntrue")},
		},
		Stored: []userdata.Part{{Name: "blob", Data: binary}, {Name: "text.txt", Data: []byte("text\n")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := cloudInit(t, m.Data)
	var list []string
	for i, p := range got.Parts {
		list = append(list, p.Type+" "+p.Name)
		if p.Type != userdata.PartHandler && !bytes.Equal(p.Data, m.Parts[i].Data) {
			t.Errorf("%s: got %q, want %q", p.Name, p.Data, m.Parts[i].Data)
		}
	}
	want := []string{
		"text/part-handler kollet-part-handler.py", "application/x-kollet-file blob", "application/x-kollet-file text.txt",
		"text/x-shellscript 01-tune-it.sh", "text/cloud-config 02-one.yaml", "text/cloud-config 03-two.yaml", "text/x-shellscript 04-a.sh",
		"text/cloud-config kollet.yaml",
	}
	if !slices.Equal(list, want) {
		t.Errorf("got %q, want %q", list, want)
	}
	if want := []string{"01-tune-it.sh", "04-a.sh"}; !slices.Equal(got.Scripts, want) || slices.Max(got.Scripts) > "runcmd" {
		t.Errorf("scripts %q, want %q, all before runcmd", got.Scripts, want)
	}
	for name, data := range map[string][]byte{"blob": binary, "text.txt": []byte("text\n")} {
		have, err := os.ReadFile(filepath.Join(got.stored, name))
		info, serr := os.Stat(filepath.Join(got.stored, name))
		if err != nil || serr != nil || !bytes.Equal(have, data) || info.Mode() != 0o600 {
			t.Errorf("stored %s: %q, %v, %v", name, have, info, err)
		}
	}
	config, _ := json.Marshal(map[string]any{"runcmd": got.Config["runcmd"], "packages": got.Config["packages"], "output": got.Config["output"]})
	if want := `{"output":{"all":"\u003e\u003e /mine"},"packages":["a","b"],"runcmd":["first","second",["sh","/var/lib/kollet/first-boot"]]}`; string(config) != want {
		t.Errorf("got %s, want %s", config, want)
	}
	if files := got.Config["write_files"].([]any); len(files) != 3 || files[0].(map[string]any)["path"] != "/one" {
		t.Errorf("files %v", files)
	}
}

// A part can say how to merge it.
func TestCloudInitMergesAsAPartSays(t *testing.T) {
	m, err := userdata.Build(userdata.Recipe{Node: nodeWith(t, nil), Parts: []userdata.Part{
		{Type: userdata.CloudConfigType, Name: "1", Data: []byte("#cloud-config\npackages: [a]\n")},
		{Type: userdata.CloudConfigType, Name: "2", Data: []byte("#cloud-config\nmerge_how: dict(replace)+list()+str()\npackages: [b]\n")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := cloudInit(t, m.Data).Config["packages"].([]any); len(got) != 1 || got[0] != "b" {
		t.Errorf("packages %v", got)
	}
}

// A joined message has the added part and all of its own.
func TestCloudInitReadsJoined(t *testing.T) {
	first := userdata.Config{Timezone: "UTC", WriteFiles: []userdata.WriteFile{userdata.File{Path: "/seed", Owner: "root:root", Perm: 0o644, Data: []byte("x")}.Entry()}}.Part("seed.yaml")
	script := userdata.Part{Type: userdata.ShellScript, Name: "a.sh", Data: []byte("#!/bin/sh\n")}
	for name, r := range map[string]userdata.Recipe{
		"plain":   {},
		"message": {Parts: []userdata.Part{script}},
		"gzip":    {Parts: []userdata.Part{script}, Gzip: true},
	} {
		t.Run(name, func(t *testing.T) {
			r.Node = nodeWith(t, nil)
			m, err := userdata.Build(r)
			if err != nil {
				t.Fatal(err)
			}
			data, err := userdata.Join(first, "given", m.Data)
			if err != nil {
				t.Fatal(err)
			}
			got := cloudInit(t, data)
			files, commands := got.Config["write_files"].([]any), got.Config["runcmd"].([]any)
			if len(files) != 3 || len(commands) != 1 || got.Config["timezone"] != "UTC" || len(got.Scripts) != len(r.Parts) || len(got.Parts) != 2+len(r.Parts) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestCloudInitAcceptsTheSchema(t *testing.T) {
	m, err := userdata.Build(userdata.Recipe{Node: nodeWith(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "user-data")
	check := func(data []byte) (string, error) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("cloud-init", "schema", "--config-file", file).CombinedOutput()
		return string(out), err
	}
	if out, err := check(m.Data); err != nil || strings.Contains(strings.ToLower(out), "deprecat") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := check(bytes.Replace(m.Data, []byte("permissions:"), []byte("permission:"), 1)); err == nil {
		t.Errorf("the check sees nothing: %s", out)
	}
}
