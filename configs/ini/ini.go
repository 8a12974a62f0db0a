// Package ini reads, merges and writes configuration files in oslo.config's
// dialect of INI, which every OpenStack service uses:
//
//   - sections in brackets; keys before the first one belong to DEFAULT;
//   - "key = value" or "key: value"; the first sign counts;
//   - a line that starts with a space or a tab continues the value above it;
//   - a line that starts with # or ; is a comment; comments do not start elsewhere;
//   - a key that occurs several times has several values (MultiStrOpt);
//   - one pair of quotes around a value is not part of it;
//   - section names other than DEFAULT are case-insensitive.
//
// These are the rules of oslo_config/iniparser.py and cfg.py as of 9.0. Input that
// oslo.config accepts but never uses, such as "[ libvirt ]", is an error here.
package ini

import (
	"bytes"
	"strings"
)

// Default is the section of keys that come before any section.
const Default = "DEFAULT"

// File is a parsed file. The zero File is empty.
type File struct {
	Sections []*Section
}

// Section is one section with its keys in the order of their first occurrence.
type Section struct {
	Name string
	Keys []*Key
}

// Key is a key with all its values as written: with quotes, and with a line feed
// between the lines of a value.
type Key struct {
	Name   string
	Values []string
	Line   int // of the first value, in the file that was parsed
}

// Merge merges over into f. The values that over has for a key replace all of its
// values in f; other keys stay. Nothing can be removed.
func (f *File) Merge(over *File) {
	for _, section := range over.Sections {
		into := f.section(section.Name)
		for _, key := range section.Keys {
			k := into.key(key.Name)
			k.Values, k.Line = append([]string(nil), key.Values...), key.Line
		}
	}
}

// Bytes returns the file in a canonical form, so that equal configurations are
// equal bytes. It drops comments, so that a changed comment restarts nothing.
func (f *File) Bytes() []byte {
	var out bytes.Buffer
	for _, section := range f.Sections {
		if len(section.Keys) == 0 {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		out.WriteString("[" + section.Name + "]\n")
		for _, key := range section.Keys {
			for _, value := range key.Values {
				line := key.Name + " = " + strings.ReplaceAll(value, "\n", "\n\t")
				for part := range strings.Lines(line) {
					out.WriteString(strings.TrimRight(part, " \n") + "\n")
				}
			}
		}
	}
	return out.Bytes()
}

// Canonical returns the name by which oslo.config knows a section.
func Canonical(section string) string {
	if section == Default {
		return section
	}
	// As Python's str.lower, which folds fewer letters than strings.EqualFold.
	return strings.ToLower(section)
}

func (f *File) find(name string) *Section {
	for _, s := range f.Sections {
		if Canonical(s.Name) == Canonical(name) {
			return s
		}
	}
	return nil
}

func (f *File) section(name string) *Section {
	if s := f.find(name); s != nil {
		return s
	}
	s := &Section{Name: name}
	f.Sections = append(f.Sections, s)
	return s
}

func (s *Section) find(name string) *Key {
	for _, k := range s.Keys {
		if k.Name == name {
			return k
		}
	}
	return nil
}

func (s *Section) key(name string) *Key {
	if k := s.find(name); k != nil {
		return k
	}
	k := &Key{Name: name}
	s.Keys = append(s.Keys, k)
	return k
}
