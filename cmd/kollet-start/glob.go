package main

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func hasMagic(pattern string) bool { return strings.ContainsAny(pattern, "*?[") }

// glob expands a pattern by the rules of Python's glob, which Kolla uses: a wildcard
// does not match a leading dot, and a pattern that ends in a slash matches only
// directories. A path without wildcards is returned if it exists.
func (a applier) glob(pattern string) ([]string, error) {
	found := []string{"/"}
	for part := range strings.SplitSeq(strings.Trim(a.path(pattern), "/"), "/") {
		var next []string
		for _, dir := range found {
			names, err := globIn(dir, part)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				next = append(next, path.Join(dir, name))
			}
		}
		found = next
	}
	if !strings.HasSuffix(pattern, "/") {
		return found, nil
	}
	var dirs []string
	for _, name := range found {
		if st, err := stat(name); err == nil && isDir(st) {
			dirs = append(dirs, name)
		}
	}
	return dirs, nil
}

// globIn returns the names in dir that one part of a pattern matches.
func globIn(dir, part string) ([]string, error) {
	if !hasMagic(part) {
		_, err := lstat(path.Join(dir, part))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return nil, nil
		}
		return []string{part}, err
	}
	names, _ := list(dir) // not a directory, or absent: nothing matches
	var matching []string
	for _, name := range names {
		if (name[0] != '.' || part[0] == '.') && matches(part, name) {
			matching = append(matching, name)
		}
	}
	return matching, nil
}

// matches reports whether a pattern matches a whole name by the rules of Python's
// fnmatch. They differ from those of path.Match: a backslash is literal, and so is a
// bracket that is not closed.
func matches(pattern, name string) bool {
	// Where to try again, with one character more for the last asterisk.
	var retryPattern, retryName string
	retry := false
	for pattern != "" || name != "" {
		if rest, ok := strings.CutPrefix(pattern, "*"); ok {
			pattern, retryPattern, retryName, retry = rest, rest, name, true
			continue
		}
		if one, rest := firstOf(pattern); name != "" && pattern != "" {
			if c, n := character(name); one(c) {
				pattern, name = rest, name[n:]
				continue
			}
		}
		if !retry || retryName == "" {
			return false
		}
		_, n := character(retryName)
		retryName = retryName[n:]
		pattern, name = retryPattern, retryName
	}
	return true
}

// firstOf returns what the first element of a pattern matches, and the rest of the
// pattern. The element is a character, a question mark or a set.
func firstOf(pattern string) (one func(rune) bool, rest string) {
	if pattern == "" {
		return nil, ""
	}
	c, n := character(pattern)
	if c == '?' {
		return func(rune) bool { return true }, pattern[n:]
	}
	if c == '[' {
		if set, rest, ok := cutSet(pattern[n:]); ok {
			negated := set[0] == '!'
			set = strings.TrimPrefix(set, "!")
			return func(c rune) bool { return inSet(set, c) != negated }, rest
		}
	}
	return func(other rune) bool { return other == c }, pattern[n:]
}

// cutSet splits what follows an opening bracket after the closing one, which is not
// the first character of the set. Without a closing bracket it is no set.
func cutSet(s string) (set, rest string, ok bool) {
	skip := 0
	if strings.HasPrefix(s, "!") {
		skip = 1
	}
	if strings.HasPrefix(s[skip:], "]") {
		skip++
	}
	end := strings.IndexByte(s[skip:], ']')
	if end < 0 {
		return "", "", false
	}
	end += skip
	return s[:end], s[end+1:], true
}

// inSet reports whether a character is in a set such as a-z_. A range that ends before
// it begins has no characters.
func inSet(set string, c rune) bool {
	for set != "" {
		low, n := character(set)
		high := low
		set = set[n:]
		if strings.HasPrefix(set, "-") && len(set) > 1 {
			high, n = character(set[1:])
			set = set[1+n:]
		}
		if low <= c && c <= high {
			return true
		}
	}
	return false
}

// character returns the first character of a text and its length. A byte that is not
// UTF-8 is a character of its own, as in Python, which maps it to half of a surrogate
// pair.
func character(s string) (rune, int) {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 {
		r = 0xdc00 + rune(s[0])
	}
	return r, n
}
