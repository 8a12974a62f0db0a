package bounded

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestDocument(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--root /r --log /l --log-format json create --bundle /b --pid-file /p id", "/b/config.json"},
		{"create -b /b id", "/b/config.json"},
		{"run --bundle=/b id", "/b/config.json"},
		{"run -b=/b id", "/b/config.json"},
		{"run id", "config.json"}, // the working directory is the bundle
		{"exec --process /p --detach id", "/p"},
		{"exec -p /p id", "/p"},
		{"exec --process=/p id", "/p"},
		{"exec id -- sh -p /x", ""},
		{"delete --force id", ""},
		{"--version", ""},
		{"exec --process", ""},
		{"", ""},
	} {
		if got := document(strings.Fields(c.args)); got != c.want {
			t.Errorf("runc %s: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestWithout(t *testing.T) {
	missing := []string{"CAP_SYS_RESOURCE", "CAP_BPF"}
	for name, c := range map[string]struct{ in, want string }{
		"bundle": {
			`{"ociVersion":"1.0.2","process":{"args":["CAP_BPF"],"capabilities":{"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE"],"effective":["CAP_BPF"]}},"big":18446744073709551615}`,
			`{"ociVersion":"1.0.2","process":{"args":["CAP_BPF"],"capabilities":{"bounding":["CAP_CHOWN"],"effective":[]}},"big":18446744073709551615}`,
		},
		"process": {
			`{"args":["sh"],"capabilities":{"ambient":["CAP_BPF","CAP_CHOWN","CAP_BPF"]}}`,
			`{"args":["sh"],"capabilities":{"ambient":["CAP_CHOWN"]}}`,
		},
		"nothing missing": {`{"process":{"capabilities":{"bounding":["CAP_CHOWN"]}}}`, ""},
		"no capabilities": {`{"process":{}}`, ""},
		"no process":      {`{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := without([]byte(c.in), missing)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" || got == nil {
				if string(got) != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
				return
			}
			if !reflect.DeepEqual(decode(t, got), decode(t, []byte(c.want))) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	for _, bad := range []string{"", "[]", `{"a"`, "{} {}"} {
		if _, err := without([]byte(bad), missing); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func decode(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The file keeps its mode and owner: containerd reads it too.
func TestLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"process":{"capabilities":{"bounding":["CAP_BPF"]}}}`), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := limit(path, []string{"CAP_BPF"}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if text, _ := os.ReadFile(path); strings.Contains(string(text), "CAP_BPF") {
		t.Errorf("got %s", text)
	}
	if err := limit(path+"x", nil); err == nil {
		t.Error("no error for a file that does not exist")
	}
}

// Podman's specification stays as it is, and runc gets another one.
func TestOwnCopy(t *testing.T) {
	for dir, want := range map[string]string{"userdata": "userdata/bounded/config.json", "bundle": "bundle/config.json"} {
		root := t.TempDir()
		path := filepath.Join(root, dir, "config.json")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`{"process":{}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ownCopy(path)
		if err != nil || got != filepath.Join(root, want) {
			t.Fatalf("%s, %v, want %s", got, err, want)
		}
		if text, err := os.ReadFile(got); string(text) != `{"process":{}}` {
			t.Errorf("got %s, %v", text, err)
		}
		args := replaced([]string{"create", "--bundle", filepath.Dir(path), "id"}, filepath.Dir(path), filepath.Dir(got))
		if document(args) != got {
			t.Errorf("runc %q", args)
		}
	}
}

// Each capability of the kernel is either missing or in this process's bounding set.
func TestMissing(t *testing.T) {
	missing := Missing()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "CapBnd:\t")
	var set uint64
	for _, digit := range rest[:16] {
		set = set<<4 | uint64(strings.IndexRune("0123456789abcdef", digit))
	}
	last, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		t.Fatal(err)
	}
	var count int
	if err := json.Unmarshal(last, &count); err != nil {
		t.Fatal(err)
	}
	for number, name := range names[:min(len(names), count+1)] {
		if has := set>>number&1 == 1; has == slices.Contains(missing, name) {
			t.Errorf("%s: in the bounding set %v, missing %v", name, has, !has)
		}
	}
}

func FuzzWithout(f *testing.F) {
	f.Add([]byte(`{"process":{"capabilities":{"bounding":["CAP_BPF",1]}}}`))
	f.Add([]byte(`{"capabilities":{"ambient":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		missing := []string{"CAP_BPF"}
		changed, err := without(text, missing)
		if err != nil || changed == nil {
			return
		}
		if again, err := without(changed, missing); err != nil || again != nil {
			t.Errorf("a second run changes more: %s, %v", again, err)
		}
	})
}

func FuzzDocument(f *testing.F) {
	f.Add("--root /r create --bundle /b id")
	f.Fuzz(func(t *testing.T, args string) { document(strings.Split(args, " ")) })
}
