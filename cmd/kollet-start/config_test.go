package main

import (
	"strings"
	"testing"
)

func TestDirectoryModes(t *testing.T) {
	for bits, want := range map[uint32]uint32{0o600: 0o700, 0o644: 0o755, 0o2750: 0o2750, 0o640: 0o750, 0o200: 0o200, 0o1777: 0o1777} {
		if got := (mode{bits: bits}).of(true); got != want {
			t.Errorf("a directory with %#o gets %#o, want %#o", bits, got, want)
		}
		if got := (mode{bits: bits}).of(false); got != bits {
			t.Errorf("a file with %#o gets %#o", bits, got)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(copyConfig))
	f.Add([]byte(`{"command": "a", "directories": [{"path": "/d", "owner": "root", "perm": "0o755"}], "files": [{"path": "/f", "owner": "a:b", "perm": "644"}],
		"config_files": [{"source": "/s/*", "dest": "/d/", "preserve_properties": true, "merge": true, "optional": true}],
		"permissions": [{"path": "/p*", "owner": "root", "recurse": true, "perm": null, "exclude": ["a|b"]}]}`))
	f.Add([]byte(`{"command": "\u0000", "files": [[]], "files": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig(data)
		if err != nil {
			return
		}
		for _, rules := range [][]rule{c.directories, c.files, c.copies, c.permissions} {
			for _, r := range rules {
				if r.perm.bits > 0o7777 {
					t.Errorf("%s: accepted mode %#o", r.where, r.perm.bits)
				}
				for _, path := range []string{r.path, r.source, r.dest} {
					if path != "" && (path[0] != '/' || strings.Contains(path, "\x00")) {
						t.Errorf("%s: accepted path %q", r.where, path)
					}
				}
			}
		}
		for _, r := range c.copies {
			if r.source == "" || r.dest == "" || !r.preserve && (r.owner == "" || !r.perm.given) {
				t.Errorf("accepted %+v", r)
			}
		}
		for _, r := range append(c.directories, c.files...) {
			if r.path == "" || r.owner == "" || !r.perm.given || hasMagic(r.path) {
				t.Errorf("accepted %+v", r)
			}
		}
	})
}
