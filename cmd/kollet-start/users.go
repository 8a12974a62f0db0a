package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// names are the users and groups of the image: passwd(5) and group(5).
type names struct {
	users  []passwdEntry
	groups []groupEntry
}

type passwdEntry struct {
	name     string
	uid, gid int
	home     string
}

type groupEntry struct {
	name    string
	gid     int
	members []string
}

// readNames reads the files below root. An image without them, such as one with a
// single binary, has only root.
func readNames(root string) (names, error) {
	passwd, err := readIfThere(path.Join(root, "etc/passwd"))
	if err != nil {
		return names{}, err
	}
	group, err := readIfThere(path.Join(root, "etc/group"))
	if err != nil {
		return names{}, err
	}
	n := names{users: parsePasswd(passwd), groups: parseGroup(group)}
	if passwd == "" {
		n.users = []passwdEntry{{name: "root", home: "/root"}}
	}
	if group == "" {
		n.groups = []groupEntry{{name: "root"}}
	}
	return n, nil
}

// mostNames is how many bytes of names are read.
const mostNames = 16 << 20

// readIfThere reads a file that a service may have replaced by one that does not end.
func readIfThere(path string) (string, error) {
	st, err := stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !isRegular(st) || st.Size > mostNames {
		return "", fmt.Errorf("%s is no regular file of at most %d bytes", path, mostNames)
	}
	data, err := readFile(path)
	return string(data), err
}

// parsePasswd reads lines of name:password:uid:gid:comment:home:shell. Other
// lines are ignored, as the C library does.
func parsePasswd(text string) []passwdEntry {
	var entries []passwdEntry
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		if len(f) < 6 || f[0] == "" {
			continue
		}
		uid, okUID := number(f[2])
		gid, okGID := number(f[3])
		if okUID && okGID {
			entries = append(entries, passwdEntry{f[0], uid, gid, f[5]})
		}
	}
	return entries
}

// parseGroup reads lines of name:password:gid:member,member.
func parseGroup(text string) []groupEntry {
	var entries []groupEntry
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		if len(f) < 3 || f[0] == "" {
			continue
		}
		gid, ok := number(f[2])
		if !ok {
			continue
		}
		e := groupEntry{name: f[0], gid: gid}
		if len(f) > 3 && f[3] != "" {
			e.members = strings.Split(f[3], ",")
		}
		entries = append(entries, e)
	}
	return entries
}

// number reads a user or group id. The largest 32-bit number is not an id: chown(2)
// and setresuid(2) take it for "no change".
func number(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int(n), err == nil && n != 1<<32-1
}

func (n names) user(name string) (passwdEntry, bool) {
	for _, u := range n.users {
		if u.name == name {
			return u, true
		}
	}
	if uid, ok := number(name); ok {
		for _, u := range n.users {
			if u.uid == uid {
				return u, true
			}
		}
	}
	return passwdEntry{}, false
}

// uid and gid accept names and numbers.
func (n names) uid(name string) (int, error) {
	if u, ok := n.user(name); ok {
		return u.uid, nil
	}
	if id, ok := number(name); ok {
		return id, nil
	}
	return 0, fmt.Errorf("no user %q in the image's /etc/passwd", name)
}

func (n names) gid(name string) (int, error) {
	for _, g := range n.groups {
		if g.name == name {
			return g.gid, nil
		}
	}
	if id, ok := number(name); ok {
		return id, nil
	}
	return 0, fmt.Errorf("no group %q in the image's /etc/group", name)
}

func (n names) home(uid int) string {
	for _, u := range n.users {
		if u.uid == uid {
			return u.home
		}
	}
	return ""
}

// owner resolves an owner as Kolla writes it: user or user:group, by name, where a
// missing group is the one of the same name as the user, not the user's
// primary group. A number is no name for Kolla, and none in the node file.
func (n names) owner(owner string) (uid, gid int, err error) {
	user, group, _ := strings.Cut(owner, ":")
	if group == "" {
		group = user
	}
	u := slices.IndexFunc(n.users, func(u passwdEntry) bool { return u.name == user })
	if u < 0 {
		return 0, 0, fmt.Errorf("no user %q in the image's /etc/passwd", user)
	}
	g := slices.IndexFunc(n.groups, func(g groupEntry) bool { return g.name == group })
	if g < 0 {
		return 0, 0, fmt.Errorf("no group %q in the image's /etc/group", group)
	}
	return n.users[u].uid, n.groups[g].gid, nil
}

// account is the user that the service runs as.
type account struct {
	name     string // as given
	uid, gid int
	groups   []int
	home     string
}

func (a account) String() string {
	return fmt.Sprintf("user %s (uid %d, gid %d)", a.name, a.uid, a.gid)
}

// account resolves user, user:group or "" (root) as docker run --user does: a known
// user has its primary group and all groups that it is a member of; an unknown
// number has group 0; a given group replaces all of these.
func (n names) account(spec string) (account, error) {
	user, group, _ := strings.Cut(spec, ":")
	if user == "" {
		user = "0"
	}
	a := account{name: user, home: "/"}
	uid, err := n.uid(user)
	if err != nil {
		return account{}, err
	}
	a.uid = uid
	entry, known := n.user(user)
	if known {
		a.gid, a.home = entry.gid, entry.home
	}
	if group != "" {
		a.gid, err = n.gid(group)
		return a, err
	}
	if known {
		a.groups = n.memberships(entry.name)
	}
	return a, nil
}

func (n names) memberships(user string) []int {
	var gids []int
	for _, g := range n.groups {
		if slices.Contains(g.members, user) {
			gids = append(gids, g.gid)
		}
	}
	return gids
}

func (a account) groups32() []uint32 {
	out := make([]uint32, len(a.groups))
	for i, g := range a.groups {
		out[i] = uint32(g)
	}
	return out
}
