package generation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/wary"
)

// Format is the number of the format of generation records and of the list of
// prefetched images. This kollet writes and reads this format only. A new field is
// a new format; docs/development.md describes what raising the number takes.
const Format = 1

// mostRecord is how large a record may be. One with a hundred services, each of which has a
// thousand files, has 20 MiB.
const mostRecord = 64 << 20

// record is a generation's manifest.json.
type record struct {
	Format int `json:"format"`
	Generation
}

// Store is the directory that holds the generations, each in a directory named
// after its number, and the link current, which points to the one that runs:
//
//	000003/manifest.json
//	000003/SERVICE/config/   rendered files, mounted into the container read-only
//	000003/SERVICE/public/   the same files without secrets, for diffs
//	000003/SERVICE/gate/     the container's gate
//	current -> generations/000003
type Store struct{ Dir string }

// Rendered is a rendered file of a service.
type Rendered struct {
	Name    string
	Content []byte
	Public  []byte // without secrets

	Directory bool
	Link      string      // target of a symbolic link, instead of Content
	Keep      *Properties // nil: only kollet's own can read it
}

func (s Store) generations() string { return filepath.Join(s.Dir, "generations") }

// Link returns the path of the link to the generation that runs.
func (s Store) Link() string { return filepath.Join(s.Dir, "current") }

// Path returns the directory of a generation.
func (s Store) Path(number int) string {
	return filepath.Join(s.generations(), fmt.Sprintf("%06d", number))
}

func (s Store) manifest(number int) string { return filepath.Join(s.Path(number), "manifest.json") }

// Config returns the directory of a service's rendered files in a generation.
func (s Store) Config(number int, service string) string {
	return filepath.Join(s.Path(number), service, "config")
}

// Public returns the directory of the same files without secrets.
func (s Store) Public(number int, service string) string {
	return filepath.Join(s.Path(number), service, "public")
}

// Gate returns the gate directory of a service's container.
func (s Store) Gate(number int, service string) string {
	return filepath.Join(s.Path(number), service, "gate")
}

// Linked returns the number of the generation that the link points to, and whether there is a
// link. An operator may have it point to generation 0: none runs.
func (s Store) Linked() (number int, linked bool, err error) {
	target, err := os.Readlink(s.Link())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read the current generation: %w", err)
	}
	number, err = strconv.Atoi(filepath.Base(target))
	if err != nil {
		return 0, false, fmt.Errorf("read the current generation: %s points to %q, which is not a generation", s.Link(), target)
	}
	return number, true, nil
}

// LoadCurrent reads the record of the generation that runs, or of generation 0 if none does. One
// that was given back to kolla-ansible has only those services that still are of generation 0: the
// others were left to kolla-ansible since.
func (s Store) LoadCurrent(number int) (Generation, error) {
	current, err := s.Load(number)
	if _, none := os.Lstat(s.manifest(number)); err != nil && errors.Is(none, fs.ErrNotExist) {
		return Generation{}, fmt.Errorf("read the current generation: %s is missing", s.manifest(number))
	}
	if a, unknown := s.Adopted(); unknown == nil { // else what looks for the containers reports it
		current.Services = slices.DeleteFunc(current.Services, func(service Service) bool {
			_, adopted := a.Containers[service.Name]
			return service.Origin == 0 && !adopted
		})
	}
	return current, err
}

// SetCurrent makes a generation the one that runs.
func (s Store) SetCurrent(number int) error {
	return durable.Symlink(filepath.Join("generations", filepath.Base(s.Path(number))), s.Link())
}

// Load reads a generation's record. If it has content that this kollet does not
// know, the error is a *format.UnknownError.
func (s Store) Load(number int) (Generation, error) {
	if number == 0 {
		a, err := s.Adopted()
		return a.Generation, err
	}
	var g Generation
	path := s.manifest(number)
	data, err := wary.ReadFile(path, mostRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return g, fmt.Errorf("generation %d is no longer on this node; `kollet history` lists those that are", number)
	}
	if wary.Unfit(err) {
		return g, &format.DamagedError{Err: fmt.Errorf("read generation %d: %w", number, err)}
	}
	if err != nil {
		return g, fmt.Errorf("read generation %d: %w", number, err)
	}
	var r record
	err = format.Decode(path, data, Format, &r)
	if _, ok := errors.AsType[*format.UnknownError](err); ok {
		return g, fmt.Errorf("read generation %d: %w", number, err)
	}
	if err != nil {
		return g, fmt.Errorf("read generation %d: %s: damaged record (%w)", number, path, err)
	}
	if r.Number != number { // an empty record would be a node without services
		return g, &format.DamagedError{Err: fmt.Errorf("read generation %d: %s: damaged record (its number is %d)", number, path, r.Number)}
	}
	return r.Generation, nil
}

// List returns the numbers of the generations that are kept, in order.
func (s Store) List() ([]int, error) {
	entries, err := os.ReadDir(s.generations())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list generations: %w", err)
	}
	var numbers []int
	for _, e := range entries {
		// A directory with another name, such as a copy named 7, is not a generation.
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && e.Name() == filepath.Base(s.Path(n)) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// Write writes a generation, completely or not at all. files holds the rendered
// files by service. prepare adds to the new directory, under a temporary name.
func (s Store) Write(g Generation, files map[string][]Rendered, prepare func(dir string) error) error {
	final := s.Path(g.Number)
	tmp := filepath.Join(s.generations(), ".new-"+filepath.Base(final))
	if err := s.write(tmp, g, files, prepare); err != nil {
		return errors.Join(fmt.Errorf("write generation %d: %w", g.Number, err), os.RemoveAll(tmp))
	}
	if err := os.Rename(tmp, final); err != nil {
		return fmt.Errorf("write generation %d: %w", g.Number, err)
	}
	return durable.SyncDir(s.generations())
}

func (s Store) write(tmp string, g Generation, files map[string][]Rendered, prepare func(string) error) error {
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return err
	}
	for _, service := range g.Services {
		dir := filepath.Join(tmp, service.Name)
		if err := writeFiles(dir, files[service.Name]); err != nil {
			return err
		}
	}
	if err := prepare(tmp); err != nil {
		return err
	}
	manifest, err := json.MarshalIndent(record{Format, g}, "", " ")
	if err != nil {
		return err
	}
	if len(manifest) >= mostRecord { // nobody could read it
		return fmt.Errorf("its record has more than %d MiB; mount large directories as volumes instead", mostRecord>>20)
	}
	if err := os.WriteFile(filepath.Join(tmp, "manifest.json"), append(manifest, '\n'), 0o400); err != nil {
		return err
	}
	return durable.SyncFS(tmp)
}

// removeTime is how long Remove and Sweep may take. A container may have left more files in its
// gate directory than anyone waits for; the next Sweep continues.
const removeTime = 30 * time.Second

// errSlow is why they end before everything is removed.
var errSlow = fmt.Errorf("there is more than can be removed in %v", removeTime)

// Remove deletes a generation, if it exists. It renames the directory first, so a
// crash leaves no incomplete generation under its name.
func (s Store) Remove(ctx context.Context, number int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, removeTime, errSlow)
	defer cancel()
	removed := filepath.Join(s.generations(), ".old-"+filepath.Base(s.Path(number)))
	if err := wary.RemoveAll(ctx, removed); err != nil { // left by a crash; os.Rename replaces only an empty directory
		return fmt.Errorf("remove generation %d: %w", number, err)
	}
	if err := os.Rename(s.Path(number), removed); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove generation %d: %w", number, err)
	}
	if err := wary.RemoveAll(ctx, removed); err != nil {
		return fmt.Errorf("remove generation %d: %w", number, err)
	}
	return nil
}

// Sweep removes generations that a crash left half written or half removed.
func (s Store) Sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, removeTime, errSlow)
	defer cancel()
	var errs []error
	for _, pattern := range []string{".new-*", ".old-*"} {
		left, _ := filepath.Glob(filepath.Join(s.generations(), pattern)) // the pattern is well-formed
		for _, dir := range left {
			errs = append(errs, wary.RemoveAll(ctx, dir))
		}
	}
	return errors.Join(errs...)
}
