package userdata_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/agent/userdata"
)

// firstBoot runs the script of a node's first boot with its paths below a
// directory.
type firstBoot struct {
	t   *testing.T
	dir string
}

func newFirstBoot(t *testing.T) firstBoot {
	f := firstBoot{t, t.TempDir()}
	for _, dir := range []string{"/usr/local/bin", "/bin", "/var/lib/kollet", "/etc/kollet/secrets"} {
		if err := os.MkdirAll(f.dir+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.program("/bin/apt-get", `echo "apt-get $*"`)
	return f
}

func (f firstBoot) program(path, body string) {
	f.t.Helper()
	if err := os.WriteFile(f.dir+path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

// run creates user-data, extracts the script and runs it.
func (f firstBoot) run(install userdata.Install, args ...string) (string, int) {
	f.t.Helper()
	node := nodeWith(f.t, nil)
	node.Install, node.Bootstrap = install, args
	m, err := userdata.Build(userdata.Recipe{Node: node})
	if err != nil {
		f.t.Fatal(err)
	}
	var config struct {
		WriteFiles []struct{ Path, Permissions, Content string } `yaml:"write_files"`
	}
	if err := yaml.Unmarshal(m.Data, &config); err != nil {
		f.t.Fatal(err)
	}
	last := config.WriteFiles[len(config.WriteFiles)-1]
	if last.Path != userdata.FirstBoot || last.Permissions != "0700" {
		f.t.Fatalf("the last file is %v", last)
	}
	script := last.Content
	for _, path := range []string{"/usr/local/bin/kollet", "/var/lib/kollet/", "/etc/kollet/"} {
		script = strings.ReplaceAll(script, path, f.dir+path)
	}
	script = strings.Replace(script, "PATH=", "PATH="+f.dir+"/usr/local/bin:"+f.dir+"/bin:", 1)
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = []string{"PATH=/nowhere"}
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		f.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// The tests' kollet prints its arguments and exits with status 4.
const fakeKollet = `echo "kollet $*"; exit 4`

func sum(s string) string {
	digest := sha256.Sum256([]byte(s))
	return hex.EncodeToString(digest[:])
}

func TestFirstBoot(t *testing.T) {
	program := "#!/bin/sh\n" + fakeKollet + "\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := w.Write([]byte(program)); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()

	t.Run("the image has kollet", func(t *testing.T) {
		f := newFirstBoot(t)
		f.program("/usr/local/bin/kollet", fakeKollet)
		out, status := f.run(userdata.Install{From: "https://127.0.0.1:1/kollet", SHA256: sum("")}, "--pull", "never", "it's")
		if out != "kollet bootstrap --pull never it's\n" || status != 4 {
			t.Errorf("%d: %s", status, out)
		}
		if info, err := os.Stat(f.dir + "/etc/kollet/secrets"); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	})
	t.Run("kollet is missing, without --install", func(t *testing.T) {
		out, status := newFirstBoot(t).run(userdata.Install{})
		if status != 127 || !strings.Contains(out, "create the user-data with --install") {
			t.Errorf("%d: %s", status, out)
		}
	})
	t.Run("by URL", func(t *testing.T) {
		f := newFirstBoot(t)
		out, status := f.run(userdata.Install{From: server.URL + "/kollet?a=b&c", SHA256: sum(program)})
		if out != "kollet bootstrap\n" || status != 4 {
			t.Errorf("%d: %s", status, out)
		}
	})
	t.Run("by URL of a file", func(t *testing.T) {
		f := newFirstBoot(t)
		f.program("/kollet", fakeKollet)
		out, status := f.run(userdata.Install{From: "file://" + f.dir + "/kollet", SHA256: sum(program)})
		if out != "kollet bootstrap\n" || status != 4 {
			t.Errorf("%d: %s", status, out)
		}
	})
	t.Run("not what was expected", func(t *testing.T) {
		f := newFirstBoot(t)
		out, status := f.run(userdata.Install{From: server.URL, SHA256: sum("something else")})
		if status != 1 || !strings.Contains(out, "has SHA-256 "+sum(program)+", expected "+sum("something else")+"; nothing was installed") {
			t.Errorf("%d: %s", status, out)
		}
		if left, _ := filepath.Glob(f.dir + "/usr/local/bin/*"); len(left) > 0 {
			t.Errorf("left: %s", left)
		}
	})
	t.Run("by package", func(t *testing.T) {
		f := newFirstBoot(t)
		out, status := f.run(userdata.Install{From: "kollet=1.0-1"})
		if status != 127 || !strings.HasPrefix(out, "apt-get -q update\napt-get -q -y install kollet=1.0-1\n") {
			t.Errorf("%d: %s", status, out)
		}
	})
	t.Run("by URL of a package", func(t *testing.T) {
		f := newFirstBoot(t)
		out, _ := f.run(userdata.Install{From: server.URL + "/kollet.deb", SHA256: sum(program)})
		if !strings.HasPrefix(out, "apt-get -q -y install "+f.dir+"/var/lib/kollet/kollet.deb\n") {
			t.Errorf("%s", out)
		}
		if left, _ := filepath.Glob(f.dir + "/var/lib/kollet/*"); len(left) > 0 {
			t.Errorf("left: %s", left)
		}
	})
}
