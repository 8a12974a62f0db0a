package heat

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/firstboot"
	"github.com/kollet/kollet/agent/userdata"
)

const templates = "../../playbooks/heat"

// job is a template with its parameters, answer is Heat's result.
type (
	job struct {
		Template   string            `json:"template"`
		Parameters map[string]string `json:"parameters"`
	}
	answer struct {
		Complaint string `json:"complaint"`
		Message   string `json:"message"`
	}
)

// validate has Heat read several templates at once, because Heat takes seconds to
// start.
func validate(t *testing.T, jobs ...job) (answers []answer) {
	t.Helper()
	heat(t, "validate.py", jobs, &answers)
	if len(answers) != len(jobs) {
		t.Fatalf("%d answers to %d templates", len(answers), len(jobs))
	}
	return answers
}

// heat runs a program that uses Heat's engine, with JSON input and output.
func heat(t *testing.T, program string, input, output any) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	given, err := json.Marshal(input)
	check(t, err)
	cmd := exec.Command("/usr/bin/python3", program) // Heat is installed for Debian's Python
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(given), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v; if Heat is not installed, install it with: make deps\n%s", err, &stderr)
	}
	check(t, json.Unmarshal(stdout.Bytes(), output))
}

// in returns a job for a template in a directory. Only the node's template has the
// parameter name.
func in(dir, template, userData string) job {
	j := job{filepath.Join(dir, template), map[string]string{
		"image": "debian-12-node", "flavor": "compute", "network": "management", "user_data": userData,
	}}
	if template == oneNode {
		j.Parameters["name"] = "cmp1"
	}
	return j
}

const oneNode, manyNodes = "compute-node.yaml", "compute-nodes.yaml"

func TestTemplatesAreValid(t *testing.T) {
	for _, a := range validate(t, in(templates, oneNode, "#cloud-config\n{}\n"), in(templates, manyNodes, "#cloud-config\n{}\n")) {
		if a.Complaint != "" {
			t.Error(a.Complaint)
		}
	}
}

// The validation must be able to fail: it finds each of these mistakes.
func TestMistakesAreFound(t *testing.T) {
	cases := []struct {
		name, template, from, to string
		want                     string
	}{
		{"an unknown property", oneNode, "user_data_format: RAW", "user_data_fmt: RAW", "user_data_fmt"},
		{"a wrong value", oneNode, "user_data_format: RAW", "user_data_format: COOKED", "user_data_format"},
		{"an unknown resource", oneNode, "{get_resource: handle}", "{get_resource: handel}", "handel"},
		{"an unknown attribute", oneNode, "[handle, curl_cli]", "[handle, curl]", "curl"},
		{"an unknown parameter", oneNode, "{get_param: timeout}", "{get_param: patience}", "patience"},
		{"a missing file", oneNode, "{get_file: signal.sh}", "{get_file: signal.py}", "signal.py"},
		{"an unknown condition", oneNode, "if: [has_key,", "if: [has_keys,", "has_keys"},
		{"a group's parameter", manyNodes, "          timeout: {get_param: timeout}", "          time: {get_param: timeout}", "time"},
		{"a group of an unknown type", manyNodes, "type: compute-node.yaml", "type: compute.yaml", "compute.yaml"},
		{"a mistake in the node", manyNodes, "", "user_data_fmt: RAW", "user_data_fmt"},
		{"names that are not unique", manyNodes, "default: compute-%index%", "default: compute", "%index%"},
	}
	var jobs []job
	for _, c := range cases {
		dir := t.TempDir()
		check(t, os.CopyFS(dir, os.DirFS(templates)))
		edited := filepath.Join(dir, c.template)
		if c.from == "" { // the mistake is in the template that this one uses
			edited, c.from = filepath.Join(dir, oneNode), "user_data_format: RAW"
		}
		replace(t, edited, c.from, c.to)
		jobs = append(jobs, in(dir, c.template, "#cloud-config\n{}\n"))
	}
	for i, a := range validate(t, jobs...) {
		if !strings.Contains(a.Complaint, cases[i].want) {
			t.Errorf("%s: got %q, want it to contain %q", cases[i].name, a.Complaint, cases[i].want)
		}
	}
}

func replace(t *testing.T, path, from, to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	if strings.Count(string(text), from) != 1 {
		t.Fatalf("%s does not contain %q exactly once", path, from)
	}
	check(t, os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
}

// Heat accepts both forms of kollet's user-data, kollet can read Heat's message, and
// the signal comes last.
func TestMessage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "node.yaml")
	check(t, os.WriteFile(file, []byte("profile: none\nservices:\n  alpha: {image: \"r/a:1\"}\n"), 0o600))
	forms := map[userdata.Format]string{userdata.CloudConfig: "text", userdata.Multipart: "multipart"}
	for form, kind := range forms {
		t.Run(string(form), func(t *testing.T) {
			made, err := userdata.Build(userdata.Recipe{Node: userdata.Node{NodeFile: file}, Format: form})
			check(t, err)
			j := in(templates, oneNode, string(made.Data))
			j.Parameters["user_data_type"] = kind
			a := validate(t, j)[0]
			if a.Complaint != "" {
				t.Fatal(a.Complaint)
			}
			read, _, err := userdata.Read("what Heat made", []byte(a.Message))
			check(t, err)
			check(t, read.Problems("what Heat made"))
			var parts []string
			for _, p := range read.Parts {
				if bytes.Equal(bytes.TrimSpace(p.Data), bytes.TrimSpace(made.Parts[0].Data)) {
					p.Name = "kollet's"
				}
				parts = append(parts, p.Type+" "+p.Name)
			}
			want := "text/x-shellscript 10-extra.sh, text/cloud-config kollet's, text/cloud-config signal.yaml"
			if got := strings.Join(parts, ", "); got != want {
				t.Errorf("parts: %s, want %s\n%s", got, want, a.Message)
			}
			if s := string(read.Parts[len(read.Parts)-1].Data); !strings.Contains(s, "X-Auth-Token: TOKEN") || strings.Contains(s, "$CURL") {
				t.Errorf("the signal has no command:\n%s", s)
			}
		})
	}
}

// TestSignal runs the script that reports the result of a first boot to Heat.
func TestSignal(t *testing.T) {
	for name, c := range map[string]struct {
		finished string // empty: the file does not exist
		status   string
		reason   string
		exit     int
	}{
		"committed":  {`{"ok": true, "outcome": "committed", "generation": 1, "kollet": "v1"}`, "SUCCESS", "committed", 0},
		"failed":     {`{"ok": false, "outcome": "failed", "error": "no \"image\"\nat all", "generation": 0, "kollet": "v1"}`, "FAILURE", "no \"image\"\nat all", 1},
		"no result":  {"", "FAILURE", "cloud-init-output.log", 1},
		"cut off":    {`{"ok": true, "outc`, "FAILURE", "cloud-init-output.log", 1},
		"not kollet": {`{}`, "FAILURE", "cloud-init-output.log", 1},
	} {
		t.Run(name, func(t *testing.T) {
			finished := filepath.Join(t.TempDir(), "finished")
			if c.finished != "" {
				check(t, os.WriteFile(finished, []byte(c.finished), 0o600))
			}
			data, exit := post(t, finished)
			if exit != c.exit {
				t.Errorf("exit status %d, want %d", exit, c.exit)
			}
			var signal struct{ Status, Reason string }
			check(t, json.Unmarshal(data, &signal))
			if signal.Status != c.status || !strings.Contains(signal.Reason, c.reason) {
				t.Errorf("posted %s", data)
			}
		})
	}
}

// post runs the signal script with the record of a bootstrap, and returns what it posts
// to Heat and its exit status.
func post(t *testing.T, finished string) ([]byte, int) {
	t.Helper()
	dir := t.TempDir()
	posted, script := filepath.Join(dir, "posted"), filepath.Join(dir, "signal")
	text, err := os.ReadFile(filepath.Join(templates, "signal.sh"))
	check(t, err)
	// The last argument of curl is the data to post.
	curl := `sh -c 'for last; do :; done; printf %s "$last" >` + posted + `' curl`
	text = bytes.ReplaceAll(text, []byte("$CURL"), []byte(curl))
	text = bytes.ReplaceAll(text, []byte(firstboot.FinishedPath), []byte(finished))
	check(t, os.WriteFile(script, text, 0o600))
	out, err := exec.Command("sh", script).CombinedOutput()
	t.Logf("%s", out)
	data, readErr := os.ReadFile(posted)
	check(t, readErr)
	return data, exitStatus(err)
}

func exitStatus(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
