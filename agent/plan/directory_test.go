package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// inDirectory are the files of a directory with a file, a link, and a directory below it.
func inDirectory() []generation.File {
	return []generation.File{
		{Name: "01-d", Dest: "/etc/d", Owner: "root", Perm: "0644", Directory: true},
		{Name: "01-d/f", Dest: "/etc/d/f", Owner: "root", Perm: "0644", SHA256: generation.Sum([]byte("f")), Part: true},
		{Name: "01-d/link", Dest: "/etc/d/link", SHA256: generation.Sum([]byte("f")), Link: "f", Part: true},
		{Name: "01-d/sub", Dest: "/etc/d/sub", Owner: "root", Perm: "0644", Directory: true, Part: true},
		{Name: "01-d/sub/g", Dest: "/etc/d/sub/g", Owner: "root", Perm: "0644", SHA256: generation.Sum([]byte("g")), Part: true},
	}
}

func TestFindDriftInDirectories(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *driftNode)
		want   []string
	}{
		"nothing":               {func(d *driftNode) {}, nil},
		"mounted file edited":   {func(d *driftNode) { d.write(d.config, "01-d/sub/g", "x") }, []string{"mounted file 01-d/sub/g was changed manually"}},
		"mounted file removed":  {func(d *driftNode) { d.check(os.Remove(d.config + "/01-d/f")) }, []string{"mounted file 01-d/f was removed manually"}},
		"mounted file added":    {func(d *driftNode) { d.write(d.config, "01-d/sub/h", "") }, []string{"mounted file 01-d/sub/h was added manually"}},
		"a directory added":     {func(d *driftNode) { d.write(d.config, "01-d/new/h", "") }, []string{"mounted file 01-d/new was added manually"}},
		"a directory as a file": {func(d *driftNode) { d.check(os.RemoveAll(d.config + "/01-d/sub")); d.write(d.config, "01-d/sub", "") }, []string{"mounted file 01-d/sub was changed manually", "mounted file 01-d/sub/g was removed manually"}},
		"mounted link changed": {func(d *driftNode) {
			d.check(os.Remove(d.config + "/01-d/link"))
			d.check(os.Symlink("x", d.config+"/01-d/link"))
		}, []string{"mounted file 01-d/link was changed manually"}},
		"copied file edited":  {func(d *driftNode) { d.write(d.root, "etc/d/sub/g", "x") }, []string{"copied file /etc/d/sub/g in alpha was changed manually"}},
		"copied file removed": {func(d *driftNode) { d.check(os.Remove(d.root + "/etc/d/f")) }, []string{"copied file /etc/d/f in alpha was removed manually"}},
		"copied file's mode":  {func(d *driftNode) { d.check(os.Chmod(d.root+"/etc/d/f", 0o600)) }, []string{"copied file /etc/d/f in alpha has mode 0600, not 0644"}},
		"kept mode": {func(d *driftNode) {
			d.service.Files[2].Preserve, d.service.Files[2].Perm = true, "0644"
			d.service.Files[2].Owner = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
			d.check(os.Chmod(d.config+"/01-d/f", 0o600))
		}, []string{"mounted file 01-d/f was changed manually"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriftNode(t)
			d.service.Files = append(d.service.Files, inDirectory()...)
			for _, dir := range []string{d.config + "/01-d", d.root + "/etc/d"} {
				d.write(dir, "f", "f")
				d.write(dir, "sub/g", "g")
				d.check(os.Symlink("f", dir+"/link"))
				d.check(os.Chmod(dir+"/f", 0o644))
				d.check(os.Chmod(dir+"/sub/g", 0o644))
			}
			c.change(d)
			description, err := node.KollaConfig(d.service)
			d.check(err)
			d.write(d.config, node.ConfigName, string(description))
			d.node.Engine = shelf{all: []containers.Container{*d.container}}
			drift, err := FindDrift(t.Context(), d.node, generation.Generation{Number: 4, Services: []generation.Service{d.service}})
			d.check(err)
			var got []string
			for _, f := range drift {
				got = append(got, f.What+" "+strings.TrimPrefix(f.Text, d.config+"/"))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCompareDirectories(t *testing.T) {
	store := generation.Store{Dir: t.TempDir()}
	public := filepath.Join(store.Public(5, "nova"), "01-d")
	for name, text := range map[string]string{"f": "<1 bytes, not shown>\n", "sub/g": "<1 bytes, not shown>\n"} {
		put(t, filepath.Join(public, name), text)
	}
	old := generation.Service{Name: "nova", Image: generation.Image{ID: "sha256:1"}, Files: inDirectory()}
	for name, c := range map[string]struct {
		change func(files []generation.File) []generation.File
		public map[string]string
		say    string
	}{
		"nothing":        {func(f []generation.File) []generation.File { return f }, nil, ""},
		"content":        {func(f []generation.File) []generation.File { f[4].SHA256 = "9"; return f }, map[string]string{"01-d/sub/g": "<2 bytes, not shown>\n"}, "/etc/d/sub/g - <1 bytes, not shown> + <2 bytes, not shown>"},
		"the same size":  {func(f []generation.File) []generation.File { f[4].SHA256 = "9"; return f }, map[string]string{"01-d/sub/g": "<1 bytes, not shown>\n"}, "/etc/d/sub/g its content changes, and is not shown"},
		"file less":      {func(f []generation.File) []generation.File { return f[:4] }, nil, "/etc/d/sub/g removed"},
		"merged, less":   {func(f []generation.File) []generation.File { f[0].Merge = true; return f[:4] }, nil, "/etc/d how it is copied changes; /etc/d/sub/g reverts to the image's file"},
		"link elsewhere": {func(f []generation.File) []generation.File { f[2].Link, f[2].SHA256 = "x", "9"; return f }, nil, "/etc/d/link symbolic link to x"},
		"more": {func(f []generation.File) []generation.File {
			return append(f, generation.File{Name: "01-d/y", Dest: "/etc/d/y", Directory: true, Part: true})
		}, nil, "/etc/d/y new directory"},
	} {
		t.Run(name, func(t *testing.T) {
			now := old
			now.Files = c.change(inDirectory())
			var files []generation.Rendered
			for name, text := range c.public {
				files = append(files, generation.Rendered{Name: name, Public: []byte(text)})
			}
			got, err := compare(store, nil, now, files, generation.Generation{Number: 5, Services: []generation.Service{old}})
			if err != nil || said(got) != c.say || (got.Action == Replace) != (c.say != "") {
				t.Errorf("got %q: %q, %v; want %q", got.Action, said(got), err, c.say)
			}
		})
	}
}
