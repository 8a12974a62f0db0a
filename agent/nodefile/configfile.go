package nodefile

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/kollet/kollet/configs/report"
)

func (f ConfigFile) validate(problems *report.Problems) {
	bad := func(field, format string, args ...any) { problems.Addf(f.Place, f.Key+field, format, args...) }
	sources := 0
	for _, set := range []bool{f.Template != "", f.Source != "", f.Content != nil} {
		if set {
			sources++
		}
	}
	if sources != 1 {
		bad("", "expected exactly one of template, source and content")
	}
	f.validateDest(bad)
	if f.Source != "" {
		f.validateSource(bad)
	} else if f.Merge || f.PreserveProperties {
		bad("", "merge and preserve_properties are about what a source has; this file has none")
	}
	switch {
	case f.PreserveProperties && f.Owner+f.Perm != "":
		bad("", "preserve_properties keeps the owner and mode of the source; remove owner and perm")
	case f.PreserveProperties:
	case f.Owner == "" || f.Perm == "":
		bad("", "owner and perm are required, such as owner: nova, perm: \"0600\"")
	default:
		validateAccess(f.Owner, f.Perm, func(field, format string, args ...any) { bad("."+field, format, args...) })
	}
	if len(f.OsloNamespaces) > 0 && f.Format != "ini" {
		bad(".oslo_namespaces", "only an INI file is checked; set format: ini")
	}
	if f.Format != "ini" && f.Format != "text" {
		bad(".format", "expected ini or text, got %q", f.Format)
	}
}

func (f ConfigFile) validateDest(bad func(string, string, ...any)) {
	if path.IsAbs(f.Dest) && strings.Contains(f.Dest, "{{") {
		return // it is checked again when its variables are known
	}
	into := strings.HasSuffix(f.Dest, "/")
	if !path.IsAbs(f.Dest) || path.Clean(f.Dest) == "/" && f.Source == "" || into && f.Source == "" {
		bad(".dest", "expected the absolute path of a file in the container, got %q", f.Dest)
	}
	if dir := Reserved(f.identity()); dir != "" {
		bad(".dest", reservedText, dir, f.Dest)
	}
}

func (f ConfigFile) validateSource(bad func(string, string, ...any)) {
	if strings.Contains(f.Source, "{{") && len(f.Overrides) == 0 {
		return // it is checked again when its variables are known
	}
	if _, err := filepath.Match(f.Source, ""); err != nil {
		bad(".source", "%q is not a pattern: a [ has no ]; write [[] for it", f.Source)
	}
	if !path.IsAbs(f.Source) {
		bad(".source", "expected an absolute path on the host, got %q", f.Source)
	}
	if IsPattern(f.Source) && !strings.HasSuffix(f.Dest, "/") {
		bad(".dest", "a pattern can match several files; expected a directory to copy them into, such as %s/", path.Clean(f.Dest))
	}
	if len(f.Overrides) > 0 {
		bad(".overrides", "a source is copied unchanged and has no overrides; use template or content")
	}
}

// WithPaths returns the entry with a source and a dest in which the variables are expanded.
func (f ConfigFile) WithPaths(source, dest string) (ConfigFile, error) {
	f.Source, f.Dest = source, dest
	var problems report.Problems
	bad := func(field, format string, args ...any) { problems.Addf(report.Place{}, f.Key+field, format, args...) }
	f.validateDest(bad)
	if f.Source != "" {
		f.validateSource(bad)
	}
	return f, problems.Err()
}

// IsPattern reports whether a source can match several files.
func IsPattern(source string) bool { return strings.ContainsAny(source, "*?[") }

// identity is what entries of config are merged by: the path in the container. What a
// pattern matches is not known yet.
func (f ConfigFile) identity() string {
	if f.Source != "" && strings.HasSuffix(f.Dest, "/") {
		return path.Join(f.Dest, path.Base(f.Source))
	}
	return path.Clean(f.Dest)
}
