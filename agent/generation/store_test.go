package generation

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/test/needs"
)

func store(t *testing.T) Store { return Store{Dir: t.TempDir()} }

func nothing(string) error { return nil }

func write(t *testing.T, s Store, number int) Generation {
	t.Helper()
	g := Generation{Number: number, Created: time.Unix(1, 0).UTC(), Reason: "upgrade", Engine: "docker", Services: []Service{{Name: "nova", Origin: number, Argv: []string{"a"}}}}
	files := map[string][]Rendered{"nova": {{Name: "00-nova.conf", Content: []byte("password=x"), Public: []byte("password=***")}, {Name: "config.json", Content: []byte("{}")}}}
	if err := s.Write(g, files, nothing); err != nil {
		t.Fatal(err)
	}
	return g
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWriteAndLoad(t *testing.T) {
	needs.Root(t)
	s := store(t)
	want := write(t, s, 3)
	got, err := s.Load(3)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for path, c := range map[string]struct {
		content string
		mode    fs.FileMode
	}{
		s.Config(3, "nova"):                             {"", 0o500 | fs.ModeDir},
		s.Config(3, "nova") + "/00-nova.conf":           {"password=x", 0o400},
		s.Config(3, "nova") + "/config.json":            {"{}", 0o400},
		s.Public(3, "nova"):                             {"", 0o500 | fs.ModeDir},
		s.Public(3, "nova") + "/00-nova.conf":           {"password=***", 0o400},
		s.Path(3):                                       {"", 0o700 | fs.ModeDir},
		filepath.Join(s.Dir, "generations"):             {"", 0o700 | fs.ModeDir},
		filepath.Join(s.Path(3), "nova"):                {"", 0o700 | fs.ModeDir},
		filepath.Join(s.Path(3), "nova/config"):         {"", 0o500 | fs.ModeDir},
		filepath.Join(s.Dir, "generations/000003/nova"): {"", 0o700 | fs.ModeDir},
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != c.mode {
			t.Errorf("%s: %v, %v", path, info, err)
			continue
		}
		if data, err := os.ReadFile(path); !info.IsDir() && (err != nil || string(data) != c.content) {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	if got := names(t, s.Public(3, "nova")); !slices.Equal(got, []string{"00-nova.conf"}) {
		t.Errorf("public files %q", got)
	}
	if g, err := s.Load(0); err != nil || g.Number != 0 {
		t.Errorf("generation 0: %+v, %v", g, err)
	}
	if _, err := s.Load(4); err == nil || !strings.HasPrefix(err.Error(), "generation 4 is no longer on this node; ") {
		t.Errorf("generation 4: %v", err)
	}
	for name, content := range map[string]string{"half": `{"number": 3, "ser`, "empty": ""} {
		if err := os.WriteFile(filepath.Join(s.Path(3), "manifest.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(3); err == nil || !strings.HasPrefix(err.Error(), "read generation 3: ") {
			t.Errorf("%s manifest: %v", name, err)
		}
	}
}

// What cannot be a record is not read without end.
func TestLoadHuge(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if err := errors.Join(os.MkdirAll(s.Path(3), 0o700), os.WriteFile(s.manifest(3), nil, 0o600), os.Truncate(s.manifest(3), 1<<40)); err != nil {
		t.Fatal(err)
	}
	_, err := s.Load(3)
	if _, damaged := errors.AsType[*format.DamagedError](err); !damaged || err.Error() != "read generation 3: "+s.manifest(3)+" is larger than 64 MiB" {
		t.Errorf("got %v", err)
	}
}

// A record that could not be read again is not written.
func TestWriteHuge(t *testing.T) {
	s := store(t)
	g := Generation{Number: 2, Reason: strings.Repeat("x", mostRecord)}
	if err := s.Write(g, nil, nothing); err == nil || !strings.Contains(err.Error(), "its record has more than 64 MiB; ") {
		t.Errorf("got %v", err)
	}
}

// A generation is there whole or not at all.
func TestWriteFails(t *testing.T) {
	needs.Root(t)
	s := store(t)
	cause := errors.New("no space")
	inPrepare := 0
	err := s.Write(Generation{Number: 2}, nil, func(dir string) error {
		inPrepare++
		if list, err := s.List(); err != nil || len(list) > 0 {
			t.Errorf("it is listed before it is whole: %v, %v", list, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "more"), nil, 0o600); err != nil {
			t.Error(err)
		}
		return cause
	})
	if !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "write generation 2: ") || inPrepare != 1 {
		t.Errorf("got %v", err)
	}
	if left := names(t, s.generations()); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
	// One that exists is not overwritten.
	write(t, s, 2)
	if err := s.Write(Generation{Number: 2, Reason: "other"}, nil, nothing); err == nil {
		t.Error("a generation was overwritten")
	}
	if g, err := s.Load(2); err != nil || g.Reason != "upgrade" {
		t.Errorf("got %+v, %v", g, err)
	}
	// A name that leads out of a service's directory is refused by nobody but
	// the file system, and then nothing is left.
	if err := s.Write(Generation{Number: 5, Services: []Service{{Name: "a"}}}, map[string][]Rendered{"a": {{Name: "no/such"}}}, nothing); err == nil {
		t.Error("no error for a file that cannot be written")
	}
	if got := names(t, s.generations()); slices.Contains(got, ".new-000005") || slices.Contains(got, "000005") {
		t.Errorf("left are %q", got)
	}
}

// What a crash left changes nothing and goes.
func TestLeftovers(t *testing.T) {
	needs.Root(t)
	s := store(t)
	write(t, s, 1)
	for _, left := range []string{".new-000002/nova/config", ".new-000002/stale", ".old-000001/nova", ".old-000007", "notes", "7", "-00001"} {
		if err := os.MkdirAll(filepath.Join(s.generations(), left), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := s.List(); err != nil || !slices.Equal(list, []int{1}) {
		t.Errorf("listed are %v, %v", list, err)
	}
	write(t, s, 2) // over what was begun
	if got := names(t, s.Path(2)); !slices.Equal(got, []string{"manifest.json", "nova"}) {
		t.Errorf("generation 2 has %q", got)
	}
	if err := s.Remove(t.Context(), 1); err != nil { // although its grave is taken
		t.Error(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := names(t, s.generations()), []string{"-00001", "000002", "7", "notes"}; !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
	if err := (Store{Dir: filepath.Join(s.Dir, "none")}).Sweep(t.Context()); err != nil {
		t.Errorf("without generations: %v", err)
	}
}

func TestRemove(t *testing.T) {
	needs.Root(t)
	s := store(t)
	write(t, s, 1)
	for range 2 {
		if err := s.Remove(t.Context(), 1); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, s.generations()); len(got) > 0 {
		t.Errorf("left are %q", got)
	}
	if err := store(t).Remove(t.Context(), 4); err != nil {
		t.Errorf("where nothing ever was: %v", err)
	}
}

// current loads the generation that the link points to.
func current(s Store) (Generation, error) {
	number, _, err := s.Linked()
	if err != nil {
		return Generation{}, err
	}
	return s.LoadCurrent(number)
}

func TestCurrent(t *testing.T) {
	needs.Root(t)
	s := store(t)
	if g, err := current(s); err != nil || g.Number != 0 {
		t.Errorf("without a link: %+v, %v", g, err)
	}
	if list, err := s.List(); err != nil || len(list) > 0 {
		t.Errorf("without generations: %v, %v", list, err)
	}
	for _, number := range []int{1, 12} {
		write(t, s, number)
		if err := s.SetCurrent(number); err != nil {
			t.Fatal(err)
		}
		if g, err := current(s); err != nil || g.Number != number {
			t.Errorf("got %+v, %v", g, err)
		}
		if data, err := os.ReadFile(filepath.Join(s.Dir, "current/manifest.json")); err != nil || len(data) == 0 {
			t.Errorf("the link leads nowhere: %v", err)
		}
	}
	if got := names(t, s.Dir); !slices.Equal(got, []string{"current", "generations"}) {
		t.Errorf("left beside it: %q", got)
	}
	link := filepath.Join(s.Dir, "current")
	for target, want := range map[string]string{
		"generations/000099": "read the current generation: " + s.Path(99) + "/manifest.json is missing",
		"elsewhere":          `points to "elsewhere", which is not a generation`,
	} {
		if err := errors.Join(os.Remove(link), os.Symlink(target, link)); err != nil {
			t.Fatal(err)
		}
		if _, err := current(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("to %s: %v", target, err)
		}
	}
	if err := errors.Join(os.Remove(link), os.Mkdir(link, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := current(s); err == nil || !strings.HasPrefix(err.Error(), "read the current generation: ") {
		t.Errorf("a directory: %v", err)
	}
}

// What another version wrote is refused: what it means is not known.
// An empty record is not a node without services.
func TestLoadOfDamaged(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if err := os.MkdirAll(s.Path(3), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Path(3), "manifest.json")
	for _, text := range []string{"", `{"format": 1}`, `{"format": 1, "number": 4}`, `{"format": 1, "number": "3"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := s.Load(3)
		if err == nil || !strings.Contains(err.Error(), path+": damaged record") {
			t.Errorf("%q: %+v, %v", text, g, err)
		}
	}
}

func TestLoadOfAnotherVersion(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if err := os.MkdirAll(s.Path(3), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.SetCurrent(3); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Path(3), "manifest.json")
	for text, want := range map[string]string{
		`{"number": 3, "kollet": "0.1"}`:                            "no format number, written by kollet 0.1; use that version",
		`{"format": 9, "number": "three", "kollet": "9.0"}`:         "unknown format 9, written by kollet 9.0; use that version or a newer one",
		`{"format": 1, "services": [{"cpus": 2}], "kollet": "1.9"}`: `unknown field "cpus", written by kollet 1.9; use that version or a newer one`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := current(s)
		var unknown *format.UnknownError
		if want := "read generation 3: " + path + ": " + want; !errors.As(err, &unknown) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
