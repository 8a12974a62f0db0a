package fetch

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
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// Images may come from archives instead of a registry: on disk, or on a drive
// that came with the machine. cloud-init's mounts or /etc/fstab mount the drive,
// not kollet: so it is mounted again after a reboot, and nothing stays mounted
// when kollet is killed.

// load loads missing images from the target's archives. It loads only archives
// that have a missing image. Problems with other archives are reported if the
// pull fails later.
func (f *fetcher) load(ctx context.Context) error {
	patterns := f.archivePaths()
	if len(patterns) == 0 || len(f.target.Missing(f.images)) == 0 {
		return nil
	}
	for _, pattern := range patterns {
		files, err := f.archiveFiles(ctx, pattern)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			f.missed(err.Error())
		}
		for _, file := range files {
			if err := f.loadFrom(ctx, file); err != nil {
				return err
			}
			if len(f.target.Missing(f.images)) == 0 {
				return nil
			}
		}
	}
	return nil
}

// archivePaths lists where a target's images may be. For an earlier generation
// that is where the node file says now.
func (f *fetcher) archivePaths() []string {
	if !f.target.Recalled {
		return f.target.Archives
	}
	file, _ := f.node.ReadFile(nodefile.Change{})
	if file == nil {
		return nil
	}
	return file.Images.Archives
}

// missed notes why an archive did not help, for the error of a failed pull.
func (f *fetcher) missed(text string) {
	f.archives = append(f.archives, text)
	f.node.Note("", "%s", text)
}

// archiveFiles finds the files that match a pattern, and waits for the first.
func (f *fetcher) archiveFiles(ctx context.Context, pattern string) ([]string, error) {
	var files []string
	err := f.node.Await(ctx, f.target.Wait, "image archive "+pattern, func(context.Context) error {
		var err error
		files, err = filepath.Glob(f.node.Path(pattern))
		if err == nil && len(files) == 0 {
			return fmt.Errorf("%s: %w; put the archive there, or mount the drive that has it", f.node.Path(pattern), fs.ErrNotExist)
		}
		return err
	}, func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	return files, err
}

// loadFrom loads an archive if it has a missing image.
func (f *fetcher) loadFrom(ctx context.Context, file string) error {
	images, err := archive.List(file)
	if err != nil {
		f.missed(err.Error())
		return nil
	}
	useful := slices.ContainsFunc(f.target.Services, func(s generation.Service) bool {
		if !slices.Contains(f.target.Missing(f.images), s.Name) {
			return false
		}
		return archive.Has(images, s.Ref, s.Image.ID) || archive.Has(images, f.images.ToPull[s.Name], "")
	})
	if !useful {
		f.archives = append(f.archives, fmt.Sprintf("%s has %s", file, namesOf(images)))
		return nil
	}
	if err := f.loadFile(ctx, file); err != nil {
		return fmt.Errorf("load images from %s: %w", file, err)
	}
	return f.assignLoaded(ctx, file)
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
func (f *fetcher) loadFile(ctx context.Context, file string) error {
	content, err := archive.Open(file)
	if err != nil {
		return err
	}
	defer content.Close()
	begun := f.node.Host.Now()
	f.node.Note("", "loading images from %s, %s", file, units.BytesSize(float64(content.Size)))
	counted := &quarters{Content: content, told: func(percent int64) { f.node.Note("", "loading images from %s: %d%%", file, percent) }}
	if err := f.node.Engine.Load(ctx, counted); err != nil {
		return errors.Join(content.Err(), err)
	}
	f.node.Note("", "loaded images from %s in %v", file, f.node.Host.Now().Sub(begun).Round(time.Millisecond))
	return nil
}

// quarters reports each quarter of an archive that was read.
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

// assignLoaded looks up the images that services miss after an archive was loaded.
func (f *fetcher) assignLoaded(ctx context.Context, file string) error {
	for _, name := range f.target.Missing(f.images) {
		ref := f.images.ToPull[name]
		if f.target.Recalled {
			i := slices.IndexFunc(f.target.Services, func(s generation.Service) bool { return s.Name == name })
			ref = f.target.Services[i].Image.ID
		}
		image, err := f.node.Engine.Image(ctx, ref)
		if errors.Is(err, containers.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look up what was loaded from %s: %w", file, err)
		}
		if err := f.assign([]string{name}, ref, image); err != nil {
			return err
		}
		if f.target.Pull != "always" {
			delete(f.images.ToPull, name)
		}
	}
	return nil
}

// archiveHint is the end of a pull's error: why no archive had the image.
func (f *fetcher) archiveHint() string {
	if len(f.archives) == 0 {
		return ""
	}
	return "; no image archive has it: " + strings.Join(f.archives, "; ")
}
