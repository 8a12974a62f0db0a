package seed_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/seed"
	"github.com/kollet/kollet/test/needs"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s (make deps installs it): %v\n%s", name, err, out)
	}
	return string(out)
}

// Other programs read the label, the names and the contents.
func TestImage(t *testing.T) {
	needs.Root(t)
	for _, format := range []seed.Format{seed.NoCloud, seed.ConfigDrive} {
		t.Run(string(format), func(t *testing.T) {
			s := made(t, full, format)
			s.Files[s.Paths()[0]] = bytes.Repeat([]byte("x"), 2048) // a whole sector
			s.Files[s.Paths()[1]] = bytes.Repeat([]byte("y"), 2049)
			file := filepath.Join(t.TempDir(), "seed.iso")
			size, err := s.WriteImage(file)
			info, serr := os.Stat(file)
			if err != nil || serr != nil || info.Mode() != 0o600 || int(info.Size()) != size || size%2048 != 0 {
				t.Fatalf("%v, %v, %v, %d", err, serr, info, size)
			}
			if got := command(t, "isoinfo", "-d", "-i", file); !strings.Contains(got, "Volume id: "+format.Label()+"\n") || !strings.Contains(got, "Rock Ridge") {
				t.Errorf("isoinfo -d: %s", got)
			}
			if got := command(t, "blkid", "-p", "-o", "export", file); !strings.Contains(got, "LABEL="+format.Label()+"\n") || !strings.Contains(got, "TYPE=iso9660\n") {
				t.Errorf("blkid: %s", got)
			}
			out := t.TempDir()
			command(t, "xorriso", "-osirrox", "on", "-indev", file, "-extract", "/", out)
			var names []string
			err = filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					name, _ := filepath.Rel(out, path)
					names = append(names, name)
				}
				return err
			})
			if err != nil || !slices.Equal(names, s.Paths()) {
				t.Errorf("names %q, want %q; %v", names, s.Paths(), err)
			}
			for _, name := range s.Paths() {
				if data, err := os.ReadFile(filepath.Join(out, name)); err != nil || !bytes.Equal(data, s.Files[name]) {
					t.Errorf("%s: %d bytes of %d, %v", name, len(data), len(s.Files[name]), err)
				}
			}
			// Unpacked user-data contains secrets and is readable only for its owner.
			if info, err := os.Stat(filepath.Join(out, s.Paths()[0])); err != nil || info.Mode().Perm() != 0o400 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}

// An image does not depend on the time and the directory.
func TestImageIsDeterministic(t *testing.T) {
	for _, format := range []seed.Format{seed.NoCloud, seed.ConfigDrive} {
		s := made(t, full, format)
		first, err := s.Image()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond) // ISO 9660 counts in seconds
		second, err := made(t, full, format).Image()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: not the same twice, %v", format, err)
		}
		if year := []byte(time.Now().UTC().Format("20060102")); bytes.Contains(second, year) {
			t.Errorf("%s: today is in it", format)
		}
	}
}

// A directory replaces a whole seed, and nothing else.
func TestWriteDir(t *testing.T) {
	s := made(t, full, seed.NoCloud)
	above := t.TempDir()
	dir := filepath.Join(above, "seed")
	for range 2 {
		if err := s.WriteDir(dir + "/"); err != nil {
			t.Fatal(err)
		}
	}
	if err := made(t, full, seed.ConfigDrive).WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/meta-data"); !os.IsNotExist(err) {
		t.Errorf("left of the one before: %v", err)
	}
	write(t, dir+"/mine", "x")
	if err := s.WriteDir(dir); err == nil || !strings.Contains(err.Error(), "contains mine, which is not part of a seed") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir + "/mine"); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(above); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}
