package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

// hub is an engine with a registry: what is pulled is there from then on.
type hub struct {
	containers.Engine
	mu     sync.Mutex
	here   map[string]string // reference: id
	beyond map[string]string // reference: id, in the registry
}

func (h *hub) Image(_ context.Context, ref string) (containers.Image, error) {
	for name, id := range h.here {
		if ref == name || ref == id {
			return containers.Image{ID: id}, nil
		}
	}
	return containers.Image{}, fmt.Errorf("image %s: %w", ref, containers.ErrNotFound)
}

func (h *hub) Pull(_ context.Context, ref string, _ func(containers.Progress)) (containers.Image, error) {
	id, ok := h.beyond[ref]
	if !ok {
		return containers.Image{}, fmt.Errorf("no such image")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.here[ref] = id
	return containers.Image{ID: id}, nil
}

func (h *hub) Info(ctx context.Context) (containers.Info, error) {
	return containers.Info{Name: "docker", Root: "/"}, ctx.Err()
}

// pulling makes a node that runs web:1 and shares its node file's images.
func pulling(t *testing.T, text string) (*Agent, *hub) {
	t.Helper()
	h := &hub{here: map[string]string{"web:1": "one"}, beyond: map[string]string{"web:1": "one", "web:2": "two", "db:1": "base"}}
	a := New(node.Node{Root: t.TempDir(), Host: host.Real(), Engine: h, Name: "n", Command: "pull"})
	if err := os.MkdirAll(filepath.Dir(a.node.NodeFilePath()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.node.NodeFilePath(), []byte("profile: none\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	runs := generation.Generation{Number: 1, Engine: "docker", Services: []generation.Service{
		{Name: "web", Ref: "web:1", Image: generation.Image{ID: "one"}, Origin: 1},
	}}
	if err := a.node.Store().Write(runs, nil, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := a.node.Store().SetCurrent(1); err != nil {
		t.Fatal(err)
	}
	return a, h
}

func TestPull(t *testing.T) {
	for name, c := range map[string]struct {
		node, want, prefetched, fails string
	}{
		"nothing new":        {"services: {web: {image: web:1}}", "web:1 one [web] false", "", ""},
		"a new tag":          {"services: {web: {image: web:2}}", "web:2 two [web] true", "two", ""},
		"one image, shared":  {"services: {aa: {image: web:2}, bb: {image: web:2}}", "web:2 two [aa bb] true", "two", ""},
		"two images":         {"services: {aa: {image: web:2}, bb: {image: db:1}}", "web:2 two [aa] true, db:1 base [bb] true", "base two", ""},
		"one that is absent": {"services: {aa: {image: web:2}, bb: {image: lost:1}}", "", "", "pull bb: no such image"},
		"one by one":         {"services: {web: {image: web:1}, bb: {image: lost:1}}", "web:1 one [web] false", "", "pull bb: no such image"},
		"asked for":          {"images: {pull_policy: always}\nservices: {web: {image: web:1}}", "web:1 one [web] false", "", ""},
		"never":              {"images: {pull_policy: never}\nservices: {web: {image: web:2}}", "", "", "images.pull_policy is never"},
		"another engine":     {"engine: containerd\nservices: {web: {image: web:2}}", "", "", "this node runs on docker"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := pulling(t, c.node+"\n")
			got, err := a.Pull(t.Context(), target.Options{})
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("error %v, want %q", err, c.fails)
			}
			var parts []string
			for _, i := range got.Images {
				parts = append(parts, fmt.Sprint(i.Ref, " ", i.ID, " ", i.Services, " ", i.New))
			}
			if text := strings.Join(parts, ", "); c.want != "" && text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
			prefetched, err := a.node.Store().Prefetched()
			if c.fails == "" && (err != nil || strings.Join(prefetched.Images, " ") != c.prefetched) {
				t.Errorf("prefetched are %v, %v; want %s", prefetched, err, c.prefetched)
			}
		})
	}
}

// interrupted is a hub whose second pull a signal ends.
type interrupted struct {
	*hub
	cancel context.CancelFunc
	first  chan struct{}
}

func (i interrupted) Pull(ctx context.Context, ref string, progress func(containers.Progress)) (containers.Image, error) {
	if ref == "web:2" {
		defer close(i.first)
		return i.hub.Pull(ctx, ref, progress)
	}
	<-i.first
	i.cancel()
	return containers.Image{}, ctx.Err()
}

// What was pulled before an interruption is synced too, and the error is one line.
func TestPullInterrupted(t *testing.T) {
	a, h := pulling(t, "services: {aa: {image: web:2}, bb: {image: db:1}}\n")
	ctx, cancel := context.WithCancel(t.Context())
	a.node.Engine = interrupted{h, cancel, make(chan struct{})}
	_, err := a.Pull(ctx, target.Options{})
	if err == nil || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %q", err)
	}
}
