package generation

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kollet/kollet/agent/format"
)

func TestAhead(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	var a Prefetched
	for _, step := range []struct {
		name         string
		do           func()
		images, left []string
	}{
		{"nothing yet", func() {}, nil, nil},
		{"a pull", func() { a = a.Next([]string{"b", "a", "b"}) }, []string{"a", "b"}, nil},
		{"the same again", func() { a = a.Next([]string{"a", "b"}) }, []string{"a", "b"}, nil},
		{"another pull", func() { a = a.Next([]string{"b", "c"}) }, []string{"b", "c"}, []string{"a"}},
		{"what was left is wanted again", func() { a = a.Next([]string{"a"}) }, []string{"a"}, []string{"b", "c"}},
		{"an upgrade uses it", func() { a = a.Used(Generation{Services: []Service{{Image: Image{ID: "a"}}}}) }, nil, []string{"b", "c"}},
		{"others arrive", func() { a = a.Next([]string{"e"}).Fetched("d").Fetched("e").Fetched("b") }, []string{"e"}, []string{"b", "c", "d"}},
		{"all are gone", func() { a = Prefetched{} }, nil, nil},
	} {
		step.do()
		if err := s.SetPrefetched(a); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		got, err := s.Prefetched()
		if err != nil || !slices.Equal(got.Images, step.images) || !slices.Equal(got.Left, step.left) {
			t.Errorf("%s: %+v, %v", step.name, got, err)
		}
		a = got
	}
	if _, err := os.Stat(s.prefetched()); !os.IsNotExist(err) {
		t.Errorf("an empty record stays: %v", err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "prefetched.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prefetched(); err == nil {
		t.Error("a damaged record is taken for none")
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "prefetched.json"), []byte(`{"images": ["a"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var unknown *format.UnknownError
	if _, err := s.Prefetched(); !errors.As(err, &unknown) {
		t.Errorf("a record without a format: %v", err)
	}
}
