package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var testNames = names{users: parsePasswd(passwd), groups: parseGroup(group)}

func TestAccount(t *testing.T) {
	for _, tc := range []struct {
		spec string
		want account
		err  string
	}{
		{"", account{name: "0", home: "/root"}, ""},
		{"root", account{name: "root", home: "/root"}, ""},
		{"nova", account{name: "nova", uid: 42436, gid: 42436, groups: []int{42400, 42427}, home: "/var/lib/nova"}, ""},
		{"42436", account{name: "42436", uid: 42436, gid: 42436, groups: []int{42400, 42427}, home: "/var/lib/nova"}, ""},
		{"nova:qemu", account{name: "nova", uid: 42436, gid: 42427, home: "/var/lib/nova"}, ""},
		{"nova:0", account{name: "nova", uid: 42436, home: "/var/lib/nova"}, ""},
		{"nogroup", account{name: "nogroup", uid: 50, gid: 60, home: "/"}, ""},
		{"77", account{name: "77", uid: 77, home: "/"}, ""},
		{"77:88", account{name: "77", uid: 77, gid: 88, home: "/"}, ""},
		{"noah", account{}, `no user "noah"`},
		{"nova:noah", account{}, `no group "noah"`},
		{"-1", account{}, `no user "-1"`},
		{"4294967295", account{}, `no user "4294967295"`}, // (uid_t)-1
	} {
		t.Run(tc.spec, func(t *testing.T) {
			got, err := testNames.account(tc.spec)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want %q", err, tc.err)
				}
				return
			}
			check(t, err)
			if got.name != tc.want.name || got.uid != tc.want.uid || got.gid != tc.want.gid || got.home != tc.want.home || !slices.Equal(got.groups, tc.want.groups) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	for _, tc := range []struct {
		owner    string
		uid, gid int
		err      string
	}{
		{"nova", 42436, 42436, ""},
		{"nova:", 42436, 42436, ""},
		{"nova:kolla", 42436, 42400, ""},
		{"12:34", 0, 0, `no user "12"`},
		{"nova:34", 0, 0, `no group "34"`},
		{"nogroup", 0, 0, `no group "nogroup"`}, // its primary group has another name
		{"nogroup:root", 50, 0, ""},
		{"", 0, 0, `no user ""`},
	} {
		uid, gid, err := testNames.owner(tc.owner)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q: got error %v, want %q", tc.owner, err, tc.err)
			}
		} else if err != nil || uid != tc.uid || gid != tc.gid {
			t.Errorf("%q: got %d:%d (%v), want %d:%d", tc.owner, uid, gid, err, tc.uid, tc.gid)
		}
	}
}

func TestImageWithoutNames(t *testing.T) {
	n, err := readNames(t.TempDir())
	check(t, err)
	if uid, gid, err := n.owner("root"); uid != 0 || gid != 0 || err != nil {
		t.Errorf("root is %d:%d (%v)", uid, gid, err)
	}
	if _, err := n.account("nova"); err == nil {
		t.Error("it has a user nova")
	}
}

// A service may have replaced them before it is started again.
func TestNamesThatDoNotEnd(t *testing.T) {
	for file, plant := range map[string]func(path string) error{
		"passwd": func(path string) error { return unix.Mkfifo(path, 0o644) },
		"group": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 1<<40))
		},
	} {
		root := t.TempDir()
		path := filepath.Join(root, "etc", file)
		check(t, os.Mkdir(filepath.Dir(path), 0o755))
		check(t, plant(path))
		if _, err := readNames(root); err == nil || !strings.Contains(err.Error(), path+" is no regular file of at most") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add(passwd, group, "nova:kolla")
	f.Add("root:x:0:0\n+::::::\n:::::::", "wheel:x:10:root,\nx:y:z", "0")
	f.Fuzz(func(t *testing.T, passwd, group, spec string) {
		n := names{users: parsePasswd(passwd), groups: parseGroup(group)}
		for _, u := range n.users {
			if u.name == "" || strings.ContainsAny(u.name, ":\n") || u.uid < 0 || u.gid < 0 || int64(u.uid) >= 1<<32-1 {
				t.Errorf("accepted %+v", u)
			}
			if uid, err := n.uid(u.name); err != nil {
				t.Errorf("cannot find %q, uid %d: %v", u.name, uid, err)
			}
		}
		for _, g := range n.groups {
			if _, err := n.gid(g.name); err != nil {
				t.Errorf("cannot find %q: %v", g.name, err)
			}
		}
		if a, err := n.account(spec); err == nil && (a.uid < 0 || int64(a.uid) >= 1<<32-1 || a.gid < 0 || int64(a.gid) >= 1<<32-1) {
			t.Errorf("%q is %+v", spec, a)
		}
		n.owner(spec)
	})
}
