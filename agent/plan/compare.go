package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/target"
)

// compare tells how one service differs from the generation that runs. Its
// Action is empty if it does not.
func compare(store generation.Store, key generation.Key, s generation.Service, files []generation.Rendered, current generation.Generation) (Change, error) {
	c := Change{Service: s.Name}
	missing := s.Image.ID == ""
	old, exists := current.Service(s.Name)
	if missing || !exists || s.Image.ID != old.Image.ID {
		c.Image = &ImageChange{From: old.Ref, To: s.Ref, Pull: missing}
	}
	if !exists {
		c.Action, c.Files = Add, newFiles(s)
		return c, nil
	}
	s = s.As(old, files, key)
	var err error
	if c.Files, err = compareFiles(store, s, files, old, current.Number); err != nil {
		return c, err
	}
	c.Spec = specChanges(old.Spec, s.Spec)
	if !missing && c.Image == nil {
		c.Spec = append(c.Spec, valueChanges("program", old.Argv, s.Argv)...)
	}
	c.Spec = append(c.Spec, valueChanges("warmup", old.Warmup, s.Warmup)...)
	c.Spec = append(c.Spec, valueChanges("preload", preloaded(old), preloaded(s))...)
	c.Spec = append(c.Spec, valueChanges("permissions", old.Permissions, s.Permissions)...)
	if len(c.Files) == 0 && !slices.EqualFunc(old.Files, s.Files, func(a, b generation.File) bool { return a.Name == b.Name }) {
		c.Spec = append(c.Spec, "config: order changed") // later entries override earlier ones
	}
	c.Spec = append(c.Spec, policyChanges(old, s)...)
	switch {
	case missing || s.Fingerprint() != old.Fingerprint():
		c.Action = Replace
	case !SamePolicy(old, s):
		c.Action = UpdateInPlace
	}
	return c, nil
}

// newFiles lists the files of a service that is added: `kollet render` shows their content.
func newFiles(s generation.Service) []FileChange {
	var files []FileChange
	for _, f := range s.Files {
		note := "new"
		switch {
		case f.Directory:
			note = "new directory"
		case f.Link != "":
			note = "symbolic link to " + f.Link
		}
		files = append(files, FileChange{Path: f.Dest, Note: note})
	}
	return files
}

// preloaded is what a service imports before its gate opens: the modules of its
// script, and others.
func preloaded(s generation.Service) []string {
	if s.Preload == nil || !s.Preload.Python {
		return nil
	}
	return append([]string{"python"}, s.Preload.Modules...)
}

// policyChanges lists the settings that differ and that need no other container: those that
// the fingerprint leaves out. Where an image is another one, its name is too.
func policyChanges(old, new generation.Service) []string {
	var changes []string
	if old.Image.ID == new.Image.ID {
		changes = append(changes, valueChanges("image", old.Ref, new.Ref)...)
	}
	changes = append(changes, valueChanges("stop_grace_period", old.StopGracePeriod.String(), new.StopGracePeriod.String())...)
	changes = append(changes, valueChanges("depends_on", old.DependsOn, new.DependsOn)...)
	changes = append(changes, valueChanges("replace_with_dependencies", old.ReplaceWithDependencies, new.ReplaceWithDependencies)...)
	changes = append(changes, valueChanges("group", old.Group, new.Group)...)
	for _, key := range []struct {
		name     string
		old, new any
	}{
		{"healthcheck", old.Healthcheck, new.Healthcheck},
		{"requires", old.Requires, new.Requires},
		{"guests", old.Guests, new.Guests},
		{"listed_as", old.ListedAs, new.ListedAs},
		{"problems", old.Problems, new.Problems},
		{"version", old.Version, new.Version},
	} {
		if !equal(key.old, key.new) { // their values would fill the screen
			changes = append(changes, key.name+": changed")
		}
	}
	return changes
}

// equal compares values as records hold them.
func equal(old, new any) bool {
	a, errA := json.Marshal(old)
	b, errB := json.Marshal(new)
	return errA == nil && errB == nil && string(a) == string(b)
}

// SamePolicy compares all that is not the container itself.
func SamePolicy(old, new generation.Service) bool {
	old.Origin, new.Origin = 0, 0
	old.InsteadOf, new.InsteadOf = "", ""       // the same image, by another way
	old.Image.Digest, new.Image.Digest = "", "" // by another name
	return equal(old, new)
}

func compareFiles(store generation.Store, s generation.Service, files []generation.Rendered, old generation.Service, number int) ([]FileChange, error) {
	public := map[string]string{}
	for _, f := range files {
		public[f.Name] = string(f.Public)
	}
	var changes []FileChange
	was := map[string]generation.File{}
	for _, f := range old.Files {
		was[f.Dest] = f
	}
	for _, f := range s.Files {
		before, exists := was[f.Dest]
		delete(was, f.Dest)
		same := before
		same.Name = f.Name
		if exists && same == f {
			continue
		}
		text := ""
		if exists && !before.Directory && before.Link == "" {
			data, err := os.ReadFile(filepath.Join(store.Public(number, s.Name), before.Name))
			if err != nil {
				return nil, fmt.Errorf("compare %s of %s: %w", f.Dest, s.Name, err)
			}
			text = string(data)
		}
		change := FileChange{Path: f.Dest, Diff: udiff.Unified(f.Dest+" (now)", f.Dest+" (new)", text, public[f.Name])}
		switch {
		case exists && (before.Owner != f.Owner || before.Perm != f.Perm):
			change.Note = fmt.Sprintf("owner %s, mode %s; now owner %s, mode %s", before.Owner, before.Perm, f.Owner, f.Perm)
		case f.Directory && !exists:
			change.Note = "new directory"
		case f.Link != "":
			change.Note = "symbolic link to " + f.Link
		case f.Directory, exists && before.Merge != f.Merge, exists && before.Part != f.Part, exists && before.Preserve != f.Preserve:
			change.Note = "how it is copied changes"
		case exists && change.Diff == "" && target.Withheld(text):
			change.Note = "its content changes, and is not shown"
		case exists && change.Diff == "":
			change.Note = "a secret in it changes"
		case !exists && change.Diff == "":
			change.Note = "new, and empty"
		}
		changes = append(changes, change)
	}
	for _, dest := range slices.Sorted(maps.Keys(was)) {
		note := "reverts to the image's file"
		if replaces(s.Files, dest) {
			note = "removed"
		}
		changes = append(changes, FileChange{Path: dest, Note: note})
	}
	return changes, nil
}

// replaces reports whether one of the files is a directory that replaces the image's, with
// all that is in it, at the parent of a path.
func replaces(files []generation.File, dest string) bool {
	return slices.ContainsFunc(files, func(f generation.File) bool {
		return f.Directory && !f.Part && !f.Merge && strings.HasPrefix(dest, f.Dest+"/")
	})
}
