package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/kollet/kollet/agent/archive"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/containers"
)

// Images may come from archives instead of a registry: on disk, or on a drive
// that came with the machine. A drive is mounted by cloud-init's mounts or by
// /etc/fstab, not by kollet: so it is there again after a reboot in the middle,
// and nothing stays mounted when kollet is killed.

// load takes what a target wants from its archives, as far as they have it. Only
// archives that hold an image which is missing are loaded. What is wrong with
// others is told with the pull that then fails.
func (a *Agent) load(ctx context.Context, t *target) error {
	patterns := a.archivesOf(t)
	if len(patterns) == 0 || len(t.absent()) == 0 {
		return nil
	}
	for _, pattern := range patterns {
		files, err := a.archiveFiles(ctx, pattern, t.wait)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			t.missed(a, err.Error())
		}
		for _, file := range files {
			if err := a.loadFrom(ctx, t, file); err != nil {
				return err
			}
			if len(t.absent()) == 0 {
				return nil
			}
		}
	}
	return nil
}

// archivesOf lists where a target's images may be; those of an earlier
// generation may be where the node file says now.
func (a *Agent) archivesOf(t *target) []string {
	if !t.recalled {
		return t.archives
	}
	file, _ := a.readNode(Options{})
	if file == nil {
		return nil
	}
	return file.Images.Archives
}

// absent lists the services whose image is not on this machine.
func (t *target) absent() []string {
	var names []string
	for _, s := range t.services {
		if _, wanted := t.wanted[s.Name]; wanted && (s.Image.ID == "" || t.recalled) {
			names = append(names, s.Name)
		}
	}
	return names
}

// missed notes what was not found in archives, for the error of the pull.
func (t *target) missed(a *Agent, text string) {
	t.misses = append(t.misses, text)
	a.Note("", "%s", text)
}

// archiveFiles finds what a pattern means, waiting for the first file that it
// does.
func (a *Agent) archiveFiles(ctx context.Context, pattern string, wait time.Duration) ([]string, error) {
	var files []string
	err := a.Await(ctx, wait, "image archive "+pattern, func(context.Context) error {
		var err error
		files, err = filepath.Glob(a.Path(pattern))
		if err == nil && len(files) == 0 {
			return fmt.Errorf("%s: %w; put the archive there, or mount the drive that has it", a.Path(pattern), fs.ErrNotExist)
		}
		return err
	}, func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	return files, err
}

// loadFrom loads an archive if it holds what is absent.
func (a *Agent) loadFrom(ctx context.Context, t *target, file string) error {
	images, err := archive.List(file)
	if err != nil {
		t.missed(a, err.Error())
		return nil
	}
	useful := slices.ContainsFunc(t.services, func(s generation.Service) bool {
		if !slices.Contains(t.absent(), s.Name) {
			return false
		}
		return archive.Has(images, s.Ref, s.Image.ID) || archive.Has(images, t.wanted[s.Name], "")
	})
	if !useful {
		t.misses = append(t.misses, fmt.Sprintf("%s has %s", file, namesOf(images)))
		return nil
	}
	if err := a.loadFile(ctx, file); err != nil {
		return fmt.Errorf("load images from %s: %w", file, err)
	}
	return a.bindLoaded(ctx, t, file)
}

func namesOf(images []archive.Image) string {
	var names []string
	for _, i := range images {
		if i.Name != "" && !slices.Contains(names, i.Name) {
			names = append(names, i.Name)
		}
	}
	if len(names) == 0 {
		return "images without names"
	}
	return strings.Join(names, ", ")
}

// loadFile hands an archive to the engine.
func (a *Agent) loadFile(ctx context.Context, file string) error {
	content, err := archive.Open(file)
	if err != nil {
		return err
	}
	defer content.Close()
	begun := a.Now()
	a.Note("", "loading images from %s, %s", file, units.BytesSize(float64(content.Size)))
	counted := &quarters{Content: content, told: func(percent int64) { a.Note("", "loading images from %s: %d%%", file, percent) }}
	if err := a.Engine.Load(ctx, counted); err != nil {
		return errors.Join(content.Err(), err)
	}
	a.Note("", "loaded images from %s in %v", file, a.Now().Sub(begun).Round(time.Millisecond))
	return nil
}

// quarters tells how much of an archive was read.
type quarters struct {
	*archive.Content
	told func(percent int64)
	last int64
}

func (q *quarters) Read(p []byte) (int, error) {
	n, err := q.Content.Read(p)
	if q.Size > 0 {
		if quarter := q.Done() * 4 / q.Size; quarter > q.last && quarter < 4 {
			q.last = quarter
			q.told(quarter * 25)
		}
	}
	return n, err
}

var _ io.Reader = (*quarters)(nil)

// bindLoaded tells the services which images they have now.
func (a *Agent) bindLoaded(ctx context.Context, t *target, file string) error {
	for _, name := range t.absent() {
		ref := t.wanted[name]
		if t.recalled {
			i := slices.IndexFunc(t.services, func(s generation.Service) bool { return s.Name == name })
			ref = t.services[i].Image.ID
		}
		image, err := a.Engine.Image(ctx, ref)
		if errors.Is(err, containers.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look up what was loaded from %s: %w", file, err)
		}
		if err := t.bindAll([]string{name}, ref, image); err != nil {
			return err
		}
		if t.pull != "always" {
			delete(t.wanted, name)
		}
	}
	return nil
}

// nowhere is what a pull's error says besides: why no archive had the image.
func (t *target) nowhere() string {
	if len(t.misses) == 0 {
		return ""
	}
	return "; nor is it in an image archive: " + strings.Join(t.misses, "; ")
}
