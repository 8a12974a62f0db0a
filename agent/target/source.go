package target

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
)

// Bounds of what one entry of config may copy: each generation has a copy, and each plan
// reads it. Drift is not found in larger files.
const (
	mostFiles = 1000
	mostBytes = 16 << 20
)

// source copies what a source names: a file, a directory, or all that match a pattern.
type source struct {
	from  nodefile.ConfigFile
	node  *node.Node
	name  string // prefix of names in the generation
	count int
	size  int64

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
		pattern := path.Clean(strings.ReplaceAll(s.from.Source, "[!", "[^"))[1:]
		all, err := fs.Glob(os.DirFS(s.node.Path("/")), pattern)
		if err != nil {
			return nil, fmt.Errorf("source %s: %w", s.from.Source, err)
		}
		for _, match := range all {
			if !matchesHidden(pattern, match) {
				found = append(found, "/"+match)
			}
		}
	}
	if len(found) == 0 && !s.from.Optional {
		return nil, fmt.Errorf("source %s does not exist; create it, or set optional: true", s.from.Source)
	}
	return found, nil
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
	on, dest := s.node.Path(at), s.dest(at)
	if dest == "/" {
		return fmt.Errorf("source %s cannot be copied over the root directory; give another dest", at)
	}
	if own := nodefile.Reserved(dest); own != "" { // by the name that a pattern matched
		return fmt.Errorf("source %s would be copied to %s, and %s is kollet's own; give another dest", at, dest, own)
	}
	info, err := os.Stat(on) // also through a link: the node file names it
	if err != nil {
		return fmt.Errorf("source %s: %w", at, node.WithoutPath(err))
	}
	dir, rel := on, "."
	if !info.IsDir() {
		if on, err = filepath.EvalSymlinks(on); err != nil {
			return fmt.Errorf("source %s: %w", at, node.WithoutPath(err))
		}
		dir, rel = filepath.Split(on)
	}
	root, err := os.OpenRoot(dir) // follows no link that leads out of it
	if err != nil {
		return fmt.Errorf("source %s: %w", at, node.WithoutPath(err))
	}
	defer root.Close()
	t := tree{source: s, root: root, at: at, top: generation.File{Name: s.name + path.Base(dest), Dest: dest, Merge: s.from.Merge}}
	return t.add(rel, "")
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
	content, err := t.content(rel)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, node.WithoutPath(err))
	}
	if t.size += int64(len(content)); t.size > mostBytes {
		return fmt.Errorf("source %s has more than %d MiB; mount it as a volume instead", t.from.Source, mostBytes>>20)
	}
	return t.append(below, info, generation.File{SHA256: generation.Sum(content)}, generation.Rendered{Content: content, Public: configs.Withheld(len(content))})
}

// content reads a file, but not much more than may be copied: it may grow meanwhile.
func (t *tree) content(rel string) ([]byte, error) {
	file, err := t.root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO may have taken its place
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, mostBytes+1))
}

func (t *tree) addLink(doing, rel, below string, info fs.FileInfo) error {
	target, err := t.root.Readlink(rel)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, node.WithoutPath(err))
	}
	return t.append(below, info, generation.File{SHA256: generation.Sum([]byte(target)), Link: target}, generation.Rendered{Link: target})
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
