package plan

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// copyTree gives the service a config directory /c with a file and a link, and its container
// the copy of it. Modes are as kollet-start sets them.
func (d *driftNode) copyTree(merge, preserve bool) {
	d.Helper()
	file := func(name, sum, perm string) generation.File {
		return generation.File{Name: "00-c" + name, Dest: "/c" + name, Owner: "root", Perm: perm, SHA256: sum, Preserve: preserve, Part: name != ""}
	}
	top, sub, key, link := file("", "", "0640"), file("/sub", "", "0640"), file("/sub/key", generation.Sum([]byte("k\n")), "0640"), file("/link", generation.Sum([]byte("sub")), "0777")
	top.Directory, sub.Directory, top.Merge, link.Link = true, true, merge, "sub"
	d.service.Files = append(d.service.Files, top, sub, key, link)
	if preserve {
		for i := range d.service.Files[1:] {
			d.service.Files[i+1].Owner = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
		}
	}
	for _, dir := range []string{d.config + "/00-c", d.root + "/c"} {
		d.write(dir, "sub/key", "k\n")
		d.check(os.Symlink("sub", dir+"/link"))
		for _, part := range []string{"", "/sub"} {
			mode := fs.FileMode(0o750)
			if preserve {
				mode = 0o640
			}
			d.check(os.Chmod(dir+part, mode))
		}
	}
	d.describe()
}

// describe writes the config.json of the service.
func (d *driftNode) describe() {
	d.Helper()
	description, err := node.KollaConfig(d.service)
	d.check(err)
	d.write(d.config, node.ConfigName, string(description))
}

func TestDriftOfCopiedDirectories(t *testing.T) {
	for _, c := range []struct {
		name            string
		merge, preserve bool
		change          func(*driftNode)
		want            []string // texts
	}{
		{"nothing", false, false, func(*driftNode) {}, nil},
		{"nothing, with properties", true, true, func(*driftNode) {}, nil},
		{"empty directory removed", false, false, func(d *driftNode) {
			d.check(os.RemoveAll(d.root + "/c/sub"))
		}, []string{"/c/sub in alpha was removed manually", "/c/sub/key in alpha was removed manually"}},
		{"all removed", true, false, func(d *driftNode) {
			d.check(os.RemoveAll(d.root + "/c"))
		}, []string{"/c in alpha was removed manually", "/c/sub in alpha was removed manually", "/c/sub/key in alpha was removed manually", "/c/link in alpha was removed manually"}},
		{"directory replaced by a file", false, false, func(d *driftNode) {
			d.check(os.RemoveAll(d.root + "/c/sub"))
			d.write(d.root, "c/sub", "")
		}, []string{"/c/sub in alpha was replaced manually: it is a regular file", "/c/sub/key in alpha was removed manually"}},
		{"directory replaced by a link to the host", false, false, func(d *driftNode) {
			d.check(os.RemoveAll(d.root + "/c/sub"))
			d.check(os.Symlink(d.TempDir(), d.root+"/c/sub"))
		}, []string{"/c/sub in alpha was removed manually", "/c/sub/key in alpha was removed manually"}},
		{"image's link to a directory, into which is merged", true, false, func(d *driftNode) {
			d.check(os.Rename(d.root+"/c/sub", d.root+"/other"))
			d.check(os.Symlink("/other", d.root+"/c/sub"))
		}, nil},
		{"mode of a directory", false, false, func(d *driftNode) {
			d.check(os.Chmod(d.root+"/c/sub", 0o777))
		}, []string{"/c/sub in alpha has mode 0777, not 0750"}},
		{"mode that is kept", true, true, func(d *driftNode) {
			d.check(os.Chmod(d.root+"/c/sub", 0o750))
		}, []string{"/c/sub in alpha has mode 0750, not 0640"}},
		{"link changed", true, true, func(d *driftNode) {
			d.check(os.Remove(d.root + "/c/link"))
			d.check(os.Symlink("/etc", d.root+"/c/link"))
		}, []string{"/c/link in alpha was changed manually"}},
		{"link replaced", true, true, func(d *driftNode) {
			d.check(os.Remove(d.root + "/c/link"))
			d.write(d.root, "c/link", "sub")
		}, []string{"/c/link in alpha was replaced manually: it is a regular file"}},

		{"added", false, false, func(d *driftNode) {
			d.write(d.root, "c/new/deep/file", "")
			d.write(d.root, "c/sub/a\x1b[31m", "")
			d.check(os.Symlink("sub", d.root+"/c/alias"))
			d.check(unix.Mkfifo(d.root+"/c/pipe", 0o600))
		}, []string{"/c/alias in alpha was added manually", "/c/new in alpha was added manually", "/c/pipe in alpha was added manually", "/c/sub/a in alpha was added manually"}},
		{"many added", false, false, func(d *driftNode) {
			for i := range 12 {
				d.write(d.root, fmt.Sprintf("c/sub/%02d", i), "")
			}
		}, append(manyAdded(), "2 more files in /c/sub in alpha were added manually")},
		{"added where the image has files", true, false, func(d *driftNode) { d.write(d.root, "c/new", "") }, nil},
		{"another entry puts a file there", false, false, func(d *driftNode) { // by another path of the directory
			d.service.Files = append(d.service.Files, generation.File{Name: "01-x", Dest: "/d/x", Owner: "root", Perm: "0640", SHA256: generation.Sum(nil)})
			d.write(d.config, "01-x", "")
			d.write(d.root, "c/x", "")
			d.check(os.Symlink("c", d.root+"/d"))
			d.describe()
		}, nil},
		{"mounted there", false, false, func(d *driftNode) {
			d.service.Spec.Mounts = []containers.Mount{{Type: containers.Tmpfs, Target: "/c/sub/made/run"}}
			d.container.Spec.Mounts = d.node.ContainerSpec(d.service, 3).Mounts
			d.write(d.root, "c/sub/made/run/x", "")
		}, nil},

		{"mode that a permission sets", false, false, func(d *driftNode) {
			d.service.Permissions = []nodefile.Permission{{Path: "/c", Owner: "root", Perm: "0700", Recurse: true}, {Path: "/etc/*/alpha.conf", Owner: "root", Perm: "0600"}}
			d.check(os.Chmod(d.root+"/c/sub", 0o700))
			d.check(os.Chmod(d.root+"/c/sub/key", 0o700))
			d.check(os.Chmod(d.root+"/etc/alpha/alpha.conf", 0o600))
			d.describe()
		}, nil},
		{"mode that a permission left", false, false, func(d *driftNode) {
			d.service.Permissions = []nodefile.Permission{{Path: "/c/sub/", Owner: "root", Perm: "0700"}, {Path: "/c", Owner: "root", Perm: "0700"}, {Path: "/c/sub", Owner: "root"}}
			d.check(os.Chmod(d.root+"/c/sub", 0o700))
			d.describe()
		}, []string{"/c/sub in alpha has mode 0700, not 0750"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDriftNode(t)
			d.copyTree(c.merge, c.preserve)
			c.change(d)
			d.node.Engine = shelf{all: []containers.Container{*d.container}}
			drift, err := FindDrift(t.Context(), d.node, generation.Generation{Number: 4, Services: []generation.Service{d.service}})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range drift {
				if got = append(got, f.Text); f.What != copiedFile || !filepath.IsAbs(f.Path) {
					t.Errorf("%+v", f)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%q, want\n%q", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func manyAdded() []string {
	var texts []string
	for i := range 10 {
		texts = append(texts, fmt.Sprintf("/c/sub/%02d in alpha was added manually", i))
	}
	return texts
}
