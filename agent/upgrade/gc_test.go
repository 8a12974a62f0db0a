package upgrade

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/needs"
)

// startable is a shelf that also starts.
type startable struct{ shelf }

func (*startable) Inspect(context.Context, string) (containers.Container, error) {
	return containers.Container{}, containers.ErrNotFound
}
func (*startable) Start(context.Context, string) error { return nil }

// onFullDisk returns a node on generation 6 whose state directory is on a disk without space, and
// an interrupted upgrade to generation 7 whose journal has no room for another record. Generation 1,
// which gc drops, takes up most of the disk.
func onFullDisk(t *testing.T, records ...journal.Record) *node.Node {
	t.Helper()
	needs.Root(t)
	n := &node.Node{Root: t.TempDir(), NodeFile: "/node.yaml", Host: idle(t), Engine: &startable{shelf{all: []containers.Container{made("a", 7)}}}}
	err := errors.Join(os.WriteFile(n.NodeFilePath(), []byte("keep_generations: 1\n"), 0o600),
		os.MkdirAll(n.State(), 0o700), unix.Mount("tmpfs", n.State(), "tmpfs", 0, "size=512k"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(n.State(), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for _, number := range []int{1, 5, 6, 7} {
		g := generation.Generation{Number: number}
		if number == 7 {
			g.Services = []generation.Service{{Name: "a", Origin: 7, Image: generation.Image{ID: "now"}}}
		}
		if err := n.Store().Write(g, nil, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	unlock, err := n.Lock() // makes its file
	if err := errors.Join(err, n.Store().SetCurrent(6), n.Store().SetPrefetched(generation.Prefetched{Images: []string{"next", "now"}, Left: []string{"left"}})); err != nil {
		t.Fatal(err)
	}
	unlock()
	journalOf(t, n, 7, records...)
	err = os.WriteFile(filepath.Join(n.Store().Path(1), "large"), make([]byte, 1<<20), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	j, _, err := journal.Reopen(n.Journals(), 7, "test", n.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for err == nil {
		err = j.Append(journal.Record{Event: journal.Warning, Note: "x"}) // shorter than what recovery writes
	}
	return n
}

// gc frees the disk although the upgrade before it could not end on that.
func TestGCOnFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		records []journal.Record
		outcome journal.Outcome
		left    []int
		images  []string // that stay prefetched
	}{
		"discarded": {[]journal.Record{started(journal.Pull)}, journal.Discarded, []int{5, 6, 7}, []string{"next", "now"}},
		"committed": {[]journal.Record{started(journal.CutOver, "a"), {Event: journal.Commit}}, journal.Committed, []int{6, 7}, []string{"next"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := onFullDisk(t, c.records...)
			if _, err := GC(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if left, err := n.Store().List(); err != nil || !slices.Equal(left, c.left) {
				t.Errorf("left are %v, %v, want %v", left, err, c.left)
			}
			_, records, err := n.LastJournal()
			if err != nil || !journal.Ended(records) || records[len(records)-1].Outcome != c.outcome {
				t.Errorf("after %d records: %+v, %v", len(records), records[len(records)-1], err)
			}
			if prefetched, err := n.Store().Prefetched(); err != nil || !slices.Equal(prefetched.Images, c.images) || len(prefetched.Left) > 0 {
				t.Errorf("prefetched are %+v, %v", prefetched, err)
			}
		})
	}
}
