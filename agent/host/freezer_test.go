package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A made-up hierarchy of each version, with a cgroup that kollet made and one that it did not.
func TestFreeze(t *testing.T) {
	for name, c := range map[string]struct{ hierarchy, file, frozen, thawed, state, still string }{
		"version 1": {"freezer", "freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"},
		"version 2": {"", "cgroup.freeze", "1", "0", "cgroup.events", "populated 1\nfrozen 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			kind := "cgroup none rw," + c.hierarchy
			if c.hierarchy == "" {
				kind = "cgroup2 none rw"
			}
			h := fakeMounts(t, "self", "30 22 0:20 / "+top+" rw - "+kind+"\n")
			mounts, err := h.hierarchies()
			if err != nil {
				t.Fatal(err)
			}
			has := func(cgroup, want string) {
				t.Helper()
				if got, err := os.ReadFile(filepath.Join(top, cgroup, c.file)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v, want %q", cgroup, got, err, want)
				}
			}
			const ours, scope, theirs = "kollet-guests-abc", "machine.slice/kollet-guests-abd.scope", "docker-abc"
			for _, cgroup := range []string{ours, scope, theirs} {
				dir := filepath.Join(top, cgroup)
				err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, c.state), []byte(c.still), 0o600), os.WriteFile(filepath.Join(dir, c.file), []byte(c.frozen), 0o600))
				if err != nil {
					t.Fatal(err)
				}
			}
			cgroup := Cgroup{host: h, own: Membership{c.hierarchy: "/" + ours}, mounts: mounts}
			if err := cgroup.Thaw(); err != nil {
				t.Error(err)
			}
			has(ours, c.thawed)
			if frozen, err := cgroup.Freeze(t.Context()); !frozen || err != nil {
				t.Errorf("%v, %v", frozen, err)
			}
			has(ours, c.frozen)
			if err := h.ThawAll("kollet-guests-"); err != nil {
				t.Error(err)
			}
			has(ours, c.thawed)
			has(scope, c.thawed)
			has(theirs, c.frozen)
			for _, own := range []Membership{{c.hierarchy: "/"}, {"pids": "/" + ours}} {
				if frozen, err := (Cgroup{host: h, own: own, mounts: mounts}).Freeze(t.Context()); frozen || err != nil {
					t.Errorf("%v: %v, %v", own, frozen, err)
				}
			}
		})
	}
}
