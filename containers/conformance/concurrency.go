package conformance

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kollet/kollet/containers"
)

var concurrencyTests = []test{
	{"many containers at once", func(t *testing.T, s *suite) {
		label := unique("concurrent")
		stop := make(chan struct{})
		var lister sync.WaitGroup
		lister.Go(func() { // while containers are created and removed
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Engine.List(t.Context(), map[string]string{"concurrent": label}); err != nil {
					t.Error(err)
					return
				}
			}
		})
		var workers sync.WaitGroup
		for w := range 4 {
			spec := s.script(forever)
			spec.Labels["concurrent"] = label
			workers.Go(func() {
				for round := range 2 {
					if err := s.lifecycle(t, spec, fmt.Sprintf("%d-%d", w, round)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		workers.Wait()
		close(stop)
		lister.Wait()
		left, err := s.Engine.List(t.Context(), map[string]string{"concurrent": label})
		must(t, err)
		equal(t, "containers left", len(left), 0)
	}},
	{"the same call several times at once", func(t *testing.T, s *suite) {
		const n = 4
		atOnce := func(what string, do func() error) {
			t.Helper()
			errs := make(chan error, n)
			for range n {
				go func() { errs <- do() }()
			}
			for range n {
				if err := <-errs; err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		ctx := t.Context()
		spec := s.script(forever)
		id := s.create(t, spec)
		atOnce("start", func() error { return s.Engine.Start(ctx, id) })
		s.awaitUp(t, id)
		atOnce("update", func() error { return s.Engine.Update(ctx, id, spec.Name, containers.RestartUnlessStopped) })
		atOnce("stop", func() error { return s.Engine.Stop(ctx, id, patience) })
		equal(t, "exit status", s.inspect(t, id).ExitCode, 7)
		atOnce("remove", func() error { return s.Engine.Remove(ctx, id) })
		_, err := s.Engine.Inspect(ctx, id)
		wantErrorIs(t, err, containers.ErrNotFound)
		ref := s.push(t, "conformance/atonce:1", withNoise(t, baseImage(t, "at once"), 1<<20))
		atOnce("pull", func() error { _, err := s.Engine.Pull(ctx, ref, nil); return err })
	}},
	{"name is given to one container only", func(t *testing.T, s *suite) {
		spec := s.script("true")
		const n = 4
		ids := make(chan string, n)
		for range n {
			go func() {
				id, _ := s.Engine.Create(t.Context(), spec)
				ids <- id
			}()
		}
		created := 0
		for range n {
			if id := <-ids; id != "" {
				s.removeLater(t, id)
				created++
			}
		}
		equal(t, "containers created", created, 1)
	}},
}

// lifecycle creates, uses and removes a container.
func (s *suite) lifecycle(t *testing.T, spec containers.Spec, word string) error {
	ctx := t.Context()
	spec.Name = unique("concurrent")
	id, err := s.Engine.Create(ctx, spec)
	if err != nil {
		return err
	}
	if err := s.Engine.Start(ctx, id); err != nil {
		return err
	}
	var out bytes.Buffer
	if status, err := s.Engine.Exec(ctx, id, containers.Exec{Argv: []string{"echo", word}, Stdout: &out}); err != nil || status != 0 || out.String() != word+"\n" {
		return fmt.Errorf("exec: status %d, output %q, %w", status, &out, err)
	}
	if err := s.Engine.Update(ctx, id, spec.Name+"-updated", containers.RestartUnlessStopped); err != nil {
		return err
	}
	if err := s.Engine.Stop(ctx, id, time.Second); err != nil {
		return err
	}
	return s.Engine.Remove(ctx, id)
}
