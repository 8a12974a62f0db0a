package progress

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var (
	this  = Program{Version: "1.0.0 (commit 1111111)", Sum: "aa"}
	other = Program{Version: "1.0.0 (commit 2222222)", Sum: "bb"}

	first = Attempt{
		Suite: "TestEngine", Engine: "docker", Scenario: "upgrade", Strikes: []Strike{{"fails", true, 3}}, Hits: 1, Call: "POST /start",
		Status: 4, End: "old", Next: []Strike{{"is delayed", false, 7}}, First: 1.5, Seconds: 2.5,
	}
	second  = Attempt{Suite: "TestEngine", Engine: "docker", Scenario: "upgrade", Strikes: []Strike{{}}, Calls: []string{"GET /info"}}
	another = Attempt{Suite: "TestEngine", Engine: "containerd", Scenario: "upgrade", Strikes: []Strike{{"fails", false, 1}}, Failed: "the guest is lost"}
)

func open(t *testing.T, path string, p Program, continued bool) *File {
	t.Helper()
	f, err := Open(path, p, continued)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func add(t *testing.T, f *File, all ...Attempt) {
	t.Helper()
	for _, a := range all {
		if err := f.Add(a); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// by returns attempts as they are recorded.
func by(p Program, all ...Attempt) []Attempt {
	for i := range all {
		all[i].Program = p
	}
	return all
}

func TestContinues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	add(t, open(t, path, this, false), first, another)
	add(t, open(t, path, this, false), second)
	f := open(t, path, this, false)
	if got, want := f.Of("TestEngine", "docker"), by(this, first, second); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := f.Of("TestEngine", "containerd"), by(this, another); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNothingIsRecordedWithoutAFile(t *testing.T) {
	var f *File
	if err := f.Add(first); err != nil || f.Of("TestEngine", "docker") != nil || f.Close() != nil {
		t.Errorf("a nil file: %v", err)
	}
}

// An interrupted write leaves a part of the last line.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	add(t, open(t, path, this, false), first, second)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin := strings.Index(string(text), "\n") + 1
	for _, torn := range [][]byte{text[:begin+1], text[:begin+40], text[:len(text)-1], append(text[:begin:begin], 0, 0, 0)} {
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		add(t, open(t, path, this, false), second)
		f := open(t, path, this, false)
		if got, want := f.Of("TestEngine", "docker"), by(this, first, second); !reflect.DeepEqual(got, want) {
			t.Errorf("after %q: got %+v, want %+v", torn, got, want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	add(t, open(t, path, other, false), first)
	for name, c := range map[string]struct {
		path string
		want string
	}{
		"another program": {path, "line 1 is about kollet 1.0.0 (commit 2222222) (bb), and this is 1.0.0 (commit 1111111) (aa): use another file, or CHAOS_CONTINUE=yes"},
		"no directory":    {path + "/nowhere", "open the progress file"},
	} {
		if _, err := Open(c.path, this, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}

	f := open(t, path, this, true)
	if _, err := Open(path, this, true); err == nil || !strings.Contains(err.Error(), "another run uses it") {
		t.Errorf("a second run: %v", err)
	}
	add(t, f, second)
	f = open(t, path, this, true)
	if got, want := f.Of("TestEngine", "docker"), append(by(other, first), by(this, second)...); !reflect.DeepEqual(got, want) {
		t.Errorf("continued: got %+v, want %+v", got, want)
	}
	add(t, f)

	if err := os.WriteFile(path, []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, this, false); err == nil || !strings.Contains(err.Error(), "line 1: ") {
		t.Errorf("a line that is none: %v", err)
	}
}
