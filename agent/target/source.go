package target

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/wary"
	"github.com/kollet/kollet/configs"
)

// Bounds of what one entry of config may copy: each generation has a copy, and each plan
// reads it. Drift is not found in larger files.
const (
	mostFiles = 1000
	mostBytes = 16 << 20
)

// authorities is where Kolla's images look for certificate authorities. Before its version
// of 2025, they look for them in /var/lib/kolla/config_files/ca-certificates, so the
// directory has this name among a service's files.
const authorities = "/var/lib/kolla/share/ca-certificates"

// source copies what a source names: a file, a directory, or all that match a pattern.
type source struct {
	from     nodefile.ConfigFile
	node     *node.Node
	key      generation.Key
	writable wary.Dirs // see writableDirs
	name     string    // prefix of names in the generation
	count    int
	size     int64

	within string // where what a pattern matches has to be, without links; empty for other sources

	paths    []string // of files, on the host
	files    []generation.File
	rendered []generation.Rendered
}

// read reads all that the source names. Nothing that is missing is an error of an optional
// one.
func (s *source) read() error {
	found, err := s.matches()
	if err != nil {
		return err
	}
	for _, at := range found {
		if err := s.readOne(at); err != nil {
			return err
		}
	}
	return nil
}

// matches returns the paths on the host, in order.
func (s *source) matches() ([]string, error) {
	_, err := os.Lstat(s.node.Path(s.from.Source))
	if err == nil {
		return []string{path.Clean(s.from.Source)}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("source %s: %w", s.from.Source, node.WithoutPath(err))
	}
	var found []string
	if nodefile.IsPattern(s.from.Source) {
		if found, err = s.glob(); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 && !s.from.Optional {
		return nil, fmt.Errorf("source %s does not exist; create it, or set optional: true", s.from.Source)
	}
	return found, nil
}

// glob returns the paths that match a pattern. It looks for them in the directory that the
// pattern begins with, and no link leads out of that.
func (s *source) glob() ([]string, error) {
	base, pattern := splitPattern(path.Clean(strings.ReplaceAll(s.from.Source, "[!", "[^")))
	in, err := s.writable.Follow(s.node.Path(base))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("source %s: %s: %w", s.from.Source, base, node.WithoutPath(err))
	}
	defer in.Root.Close()
	if in.Name != "." {
		return nil, nil // a file, below which nothing matches
	}
	s.within = in.Dir
	all, err := fs.Glob(in.Root.FS(), pattern)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", s.from.Source, err)
	}
	var found []string
	for _, match := range all {
		if !matchesHidden(pattern, match) {
			found = append(found, path.Join(base, match))
		}
	}
	return found, nil
}

// splitPattern splits a pattern behind its longest directory that is none.
func splitPattern(pattern string) (base, rest string) {
	literal := pattern
	if first := strings.IndexAny(pattern, `*?[\`); first >= 0 {
		literal = pattern[:first]
	}
	at := strings.LastIndex(literal, "/")
	return pattern[:at+1], pattern[at+1:]
}

// matchesHidden reports whether a path has a name with a leading dot where the pattern
// has none: as in a shell, and in Kolla, a pattern does not match those.
func matchesHidden(pattern, match string) bool {
	names := strings.Split(match, "/")
	for i, part := range strings.Split(pattern, "/") {
		if strings.HasPrefix(names[i], ".") && !strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}

// dest returns the path in the container of what is at a path on the host.
func (s *source) dest(at string) string {
	if strings.HasSuffix(s.from.Dest, "/") && !strings.HasSuffix(s.from.Source, "/") {
		return path.Join(s.from.Dest, path.Base(at))
	}
	return path.Clean(s.from.Dest)
}

func (s *source) readOne(at string) error {
	dest := s.dest(at)
	if dest == "/" {
		return fmt.Errorf("source %s cannot be copied over the root directory; give another dest", at)
	}
	if own := nodefile.Reserved(dest); own != "" { // by the name that a pattern matched
		return fmt.Errorf("source %s would be copied to %s, and %s is kollet's own; give another dest", at, dest, own)
	}
	in, err := s.writable.Follow(s.node.Path(at))
	if err != nil {
		return fmt.Errorf("source %s: %w", at, node.WithoutPath(err))
	}
	defer in.Root.Close()
	if s.within != "" && in.Dir != s.within && !strings.HasPrefix(in.Dir, strings.TrimSuffix(s.within, "/")+"/") {
		return fmt.Errorf("source %s is a symbolic link that leads out of the directory of the pattern %s; name it as a source of its own", at, s.from.Source)
	}
	t := tree{source: s, root: in.Root, at: at, top: generation.File{Name: s.name + path.Base(dest), Dest: dest, Merge: s.from.Merge}}
	if dest == authorities {
		t.top.Name = path.Base(dest)
	}
	return t.add(in.Name, "")
}

// tree is a file or directory that is being copied.
type tree struct {
	*source
	root *os.Root
	at   string // on the host
	top  generation.File
}

// add copies what is at rel. below is its path in the tree; empty at the top.
func (t *tree) add(rel, below string) error {
	doing := "source " + path.Join(t.at, below)
	info, err := t.root.Lstat(rel)
	if err == nil && below == "" && info.Mode().Type() == fs.ModeSymlink {
		return fmt.Errorf("%s: %w", doing, errReplaced) // links were followed before
	}
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		if t.from.Merge && t.from.PreserveProperties {
			return t.addLink(doing, rel, below, info)
		}
		if info, err = t.root.Stat(rel); err != nil {
			return fmt.Errorf("%s is a symbolic link that leads nowhere, or out of %s; copy what it leads to, or keep links with merge and preserve_properties", doing, t.at)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, node.WithoutPath(err))
	}
	switch {
	case info.IsDir():
		return t.addDir(doing, rel, below, info)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a directory", doing)
	}
	content, err := t.content(rel, info)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, node.WithoutPath(err))
	}
	if t.size += int64(len(content)); t.size > mostBytes {
		return fmt.Errorf("source %s has more than %d MiB; mount it as a volume instead", t.from.Source, mostBytes>>20)
	}
	return t.append(below, info, generation.File{SHA256: t.key.Digest(content)}, generation.Rendered{Content: content, Public: configs.Withheld(len(content))})
}

// errReplaced is the error of a file in whose place another was put while it was read.
var errReplaced = errors.New("it was replaced meanwhile; try again")

// content reads the file that was looked at, but not much more than may be copied: it may
// grow meanwhile.
func (t *tree) content(rel string, seen fs.FileInfo) ([]byte, error) {
	file, err := t.root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO may have taken its place
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if is, err := file.Stat(); err != nil || !os.SameFile(is, seen) {
		return nil, errors.Join(err, errReplaced)
	}
	return io.ReadAll(io.LimitReader(file, mostBytes+1))
}

func (t *tree) addLink(doing, rel, below string, info fs.FileInfo) error {
	target, err := t.root.Readlink(rel)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, node.WithoutPath(err))
	}
	return t.append(below, info, generation.File{SHA256: t.key.Digest([]byte(target)), Link: target}, generation.Rendered{Link: target})
}

func (t *tree) addDir(doing, rel, below string, info fs.FileInfo) error {
	if err := t.append(below, info, generation.File{Directory: true}, generation.Rendered{Directory: true}); err != nil {
		return err
	}
	entries, err := fs.ReadDir(t.root.FS(), rel)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, node.WithoutPath(err))
	}
	for _, e := range entries {
		if err := t.add(path.Join(rel, e.Name()), path.Join(below, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// append records a file whose content is known.
func (t *tree) append(below string, info fs.FileInfo, f generation.File, r generation.Rendered) error {
	if t.count++; t.count > mostFiles {
		return fmt.Errorf("source %s has more than %d files; mount it as a volume instead", t.from.Source, mostFiles)
	}
	if !utf8.ValidString(below) {
		return fmt.Errorf("source %s: the name %q is not UTF-8", t.at, below)
	}
	f.Name, f.Dest, f.Part = path.Join(t.top.Name, below), path.Join(t.top.Dest, below), below != ""
	f.Owner, f.Perm = t.from.Owner, t.from.Perm
	if !f.Part {
		f.Merge = t.top.Merge
	}
	if r.Name = f.Name; t.from.PreserveProperties {
		keep, err := generation.PropertiesOf(info)
		if err != nil {
			return err
		}
		r.Keep, f.Preserve, f.Owner, f.Perm = &keep, true, keep.Owner(), keep.Perm()
	}
	t.paths, t.files, t.rendered = append(t.paths, t.node.Path(path.Join(t.at, below))), append(t.files, f), append(t.rendered, r)
	return nil
}

// Withheld reports whether a text is what is shown of a file, instead of its content.
func Withheld(text string) bool {
	var size int
	_, err := fmt.Sscanf(text, "<%d", &size)
	return err == nil && text == string(configs.Withheld(size))
}
