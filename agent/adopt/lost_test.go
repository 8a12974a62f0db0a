package adopt

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/containers"
)

// Only what is copied into the container matters, under names that a comment can have.
func TestChangedFiles(t *testing.T) {
	var e engine
	var dir string
	e.kolla(t, "nova_compute", `{"command": "x", "config_files": [
  {"source": "/var/lib/kolla/config_files/nova.conf", "dest": "/etc/nova/nova.conf", "owner": "nova", "perm": "0600"},
  {"source": "/var/lib/kolla/config_files/ceph*/", "dest": "/etc/ceph/", "owner": "nova", "perm": "0600"}]}`, func(k *containers.Container) {
		dir = k.Spec.Mounts[0].Source
	})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	e.all[0].Spec.Mounts[0].Source = link
	for _, name := range []string{"nova.conf", "other.conf", "ceph-1/one\x01", "ceph-1/b/two", "more/nova.conf"} {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600), os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
	}
	p, _ := e.read(t, Options{})
	want := "it gets changes in " + link + " that were made since it was started: ceph-1/b/two, ceph-1/one\uFFFD, nova.conf"
	if !slices.ContainsFunc(p.Differs, func(f Finding) bool { return f.Text == want }) || len(p.Blocked) > 0 {
		t.Errorf("%v, %v, want %s", p.Differs, p.Blocked, want)
	}
}

// kolla-ansible may have written files since a container has copied them.
func TestChangedSinceItsStart(t *testing.T) {
	for _, c := range []struct {
		strategy         string
		created, started time.Duration // before the change
		want             bool
	}{
		{"COPY_ALWAYS", 2 * time.Hour, time.Hour, true},
		{"COPY_ALWAYS", 2 * time.Hour, -time.Hour, false},
		{"COPY_ONCE", 2 * time.Hour, -time.Hour, true},
		{"COPY_ONCE", -time.Hour, -2 * time.Hour, false},
	} {
		var e engine
		e.kolla(t, "nova_compute", plainConfig, func(k *containers.Container) {
			k.Spec.Env["KOLLA_CONFIG_STRATEGY"] = c.strategy
			k.Created, k.Started = time.Now().Add(-c.created), time.Now().Add(-c.started)
		})
		p, _ := e.read(t, Options{})
		said := slices.ContainsFunc(p.Differs, func(f Finding) bool {
			return f.Container == "nova_compute" && strings.HasSuffix(f.Text, "that were made since it was started: config.json")
		})
		if said != c.want {
			t.Errorf("%+v: %v", c, p.Differs)
		}
	}
}
