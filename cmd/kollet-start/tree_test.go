package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/test/needs"
)

// Trees are written as lines of MODE OWNER PATH [= CONTENT | -> TARGET]:
//
//	0755 0:0 etc/nova/
//	0640 0:42436 etc/nova/nova.conf = debug
//	0777 0:0 etc/link -> nova
//	0600 0:0 run/fifo |
//
// Directories end in a slash; those that are not listed are made as needed.

func plant(t *testing.T, root, tree string) {
	t.Helper()
	needs.Root(t)
	for line := range strings.Lines(tree) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		mode, err := strconv.ParseUint(f[0], 8, 32)
		if err != nil {
			t.Fatalf("tree line %q: %v", line, err)
		}
		var uid, gid int
		fmt.Sscanf(f[1], "%d:%d", &uid, &gid)
		path := filepath.Join(root, f[2])
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case len(f) > 3 && f[3] == "->":
			check(t, os.Symlink(f[4], path))
			check(t, os.Lchown(path, uid, gid))
			continue
		case len(f) > 3 && f[3] == "|":
			check(t, unix.Mkfifo(path, 0o600))
		case strings.HasSuffix(f[2], "/"):
			check(t, os.MkdirAll(path, 0o755))
		default:
			_, content, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "= ")
			check(t, os.WriteFile(path, []byte(content), 0o600))
		}
		check(t, os.Chown(path, uid, gid))
		check(t, unix.Chmod(path, uint32(mode)))
	}
}

// harvest describes all below root, without what the test put there itself.
func harvest(t *testing.T, root string, without ...string) string {
	t.Helper()
	var lines []string
	check(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if slices.Contains(without, name) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%04o %d:%d %s", st.Mode&0o7777, st.Uid, st.Gid, name)
		switch {
		case d.IsDir():
			line += "/"
		case isLink(st):
			target, _ := os.Readlink(path)
			line += " -> " + target
		case !isRegular(st):
			line += " |"
		default:
			content, _ := os.ReadFile(path)
			line += " = " + strings.ReplaceAll(string(content), "\n", "|")
		}
		lines = append(lines, strings.TrimSuffix(line, " = "))
		return nil
	}))
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(strings.Fields(a)[2], strings.Fields(b)[2]) })
	return strings.Join(lines, "\n")
}

func trim(tree string) string {
	var lines []string
	for line := range strings.Lines(tree) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
