package adopt

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/printable"
)

// users is the database of those who may log in to libvirt. kolla-ansible makes it in the
// container, where it is in no volume (kolla-ansible: roles/nova-cell/handlers).
const users = "/etc/libvirt/passwd.db"

// lost is what kolla-ansible or the image has put into the container itself, and that a new
// container does not have.
func (t *translated) lost(f found) {
	switch t.name {
	case "nova-libvirt":
		sasl := func(c nodefile.ConfigFile) bool { return c.Dest == "/etc/sasl2/libvirt.conf" }
		if slices.ContainsFunc(t.service.Config, sasl) {
			t.users(f)
		}
	case "nova-ssh":
		t.differ("it makes new host keys: a node that checks them has to accept them")
	}
}

func (t *translated) users(f found) {
	kept := path.Join(f.dir, path.Base(users))
	if _, err := os.Stat(kept); err != nil {
		t.cannotSay("the users who may log in to libvirt are in this container alone", "run `docker cp "+t.container+":"+users+" "+kept+"`")
		return
	}
	source := path.Join(literal(f.path), path.Base(users))
	t.service.Config = append(t.service.Config, nodefile.ConfigFile{Source: source, Dest: users, Owner: "root", Perm: "0600"})
}

// mostFiles is how many files of a container are looked at, and mostNames how many are named.
const mostFiles, mostNames = 10_000, 5

// changed names the config files that are newer than those that the container has copied: its
// successor gets the new ones.
func (t *translated) changed(f found) {
	copied := f.container.Started
	if f.container.Spec.Env[gate.Strategy] == gate.StrategyOnce {
		copied = f.container.Created // it has copied them at its first start
	}
	var newer []string
	seen := 0
	_ = filepath.WalkDir(f.dir+"/", func(name string, d fs.DirEntry, err error) error {
		if seen++; seen > mostFiles {
			return fs.SkipAll
		}
		if err != nil || d.IsDir() {
			return nil // what cannot be read is found when it is copied
		}
		name = strings.TrimPrefix(name, f.dir+"/")
		if info, err := d.Info(); err == nil && info.ModTime().After(copied) && f.config.copies(name) {
			newer = append(newer, printable.Line(name))
		}
		return nil
	})
	if more := len(newer) - mostNames; more > 0 {
		newer = append(newer[:mostNames], fmt.Sprintf("and %d more", more))
	}
	if len(newer) > 0 {
		t.differ("it gets changes in %s that were made since it was started: %s", f.path, strings.Join(newer, ", "))
	}
}

// copies reports whether a file of the directory, or one of the directories that it is in, is
// copied into the container, or says what is.
func (d description) copies(name string) bool {
	if name == d.file {
		return true
	}
	for {
		for _, f := range d.ConfigFiles {
			if match, err := path.Match(path.Clean(f.Source), path.Join(gate.Config, name)); err == nil && match {
				return true
			}
		}
		if name == "." { // the directory itself
			return false
		}
		name = path.Dir(name)
	}
}
