package target

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
)

// onHost makes a host with files, of which those that end in a slash are directories, and
// those whose content begins with -> are links.
func onHost(t *testing.T, files map[string]string) *node.Node {
	t.Helper()
	n := &node.Node{Root: t.TempDir(), Name: "host"}
	for name, content := range files {
		at := n.Path(name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if target, link := strings.CutPrefix(content, "->"); err == nil && link {
			err = os.Symlink(target, at)
		} else if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(at, 0o755)
		} else if err == nil {
			err = os.WriteFile(at, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// readConfig reads a node file that has these entries of config.
func readConfig(t *testing.T, n *node.Node, entries string) (*Target, error) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(n.NodeFilePath()), 0o755)
	if err == nil {
		err = os.WriteFile(n.NodeFilePath(), []byte("profile: none\nservices:\n  one:\n    image: a:1\n    config:\n    - "+entries+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Read(n, Options{}, "upgrade")
}

const owned = ", owner: nova, perm: '0640'}"

func TestSources(t *testing.T) {
	files := map[string]string{
		"/etc/ceph/ceph.conf": "fsid", "/etc/ceph/empty": "", "/etc/ceph/sub/deep/key": "k", "/etc/ceph/none/": "",
		"/etc/ceph/here": "->sub/deep/key", "/etc/ceph/alias": "->sub", "/etc/other": "->ceph",
		"/etc/keys/a.key": "a", "/etc/keys/b.key": "b", "/etc/keys/.c.key": "c", "/etc/keys/[x].key": "x", "/etc/keys/dir.key/d": "d",
		"/etc/links/away": "->/etc/passwd", "/etc/links/nowhere": "->gone",
	}
	for name, c := range map[string]struct {
		entries string
		want    []string // path in the container, and content; directories end in a slash, parts begin with +
	}{
		"file":               {"{source: /etc/ceph/ceph.conf, dest: /a" + owned, []string{"/a fsid"}},
		"empty file":         {"{source: /etc/ceph/empty, dest: /a" + owned, []string{"/a "}},
		"empty and optional": {"{source: /etc/ceph/empty, dest: /a, optional: true" + owned, []string{"/a "}},
		"empty content":      {"{content: '', dest: /a" + owned, []string{"/a "}},
		"not there":          {"{source: /etc/gone, dest: /a, optional: true" + owned, nil},
		"pattern of nothing": {"{source: '/etc/gone/*', dest: /a/, optional: true" + owned, nil},
		"into a directory":   {"{source: /etc/ceph/ceph.conf, dest: /a/" + owned, []string{"/a/ceph.conf fsid"}},
		"directory": {"{source: /etc/ceph, dest: /c" + owned, []string{
			"/c/", "+/c/alias/", "+/c/alias/deep/", "+/c/alias/deep/key k", "+/c/ceph.conf fsid", "+/c/empty ", "+/c/here k", "+/c/none/", "+/c/sub/", "+/c/sub/deep/", "+/c/sub/deep/key k"}},
		"empty on this node":      {"{source: '{{ get .vars \"ca\" | default \"\" }}', dest: /c" + owned, nil},
		"from a variable":         {"{source: '{{ printf \"/etc/ceph\" }}/sub', dest: /var/lib/kolla/share/ca-certificates" + owned, []string{"/var/lib/kolla/share/ca-certificates/", "+/var/lib/kolla/share/ca-certificates/deep/", "+/var/lib/kolla/share/ca-certificates/deep/key k"}},
		"to a variable":           {"{source: /etc/ceph/ceph.conf, dest: '/a/{{ printf \"b\" }}.conf'" + owned, []string{"/a/b.conf fsid"}},
		"into a variable":         {"{source: /etc/ceph/ceph.conf, dest: '/{{ printf \"a\" }}/'" + owned, []string{"/a/ceph.conf fsid"}},
		"content to a variable":   {"{content: x, dest: '/a/{{ printf \"b\" }}.conf'" + owned, []string{"/a/b.conf x"}},
		"directory below another": {"{source: /etc/ceph/sub, dest: /c/" + owned, []string{"/c/sub/", "+/c/sub/deep/", "+/c/sub/deep/key k"}},
		"its content alone":       {"{source: /etc/ceph/sub/, dest: /c/" + owned, []string{"/c/", "+/c/deep/", "+/c/deep/key k"}},
		"link that is named":      {"{source: /etc/other/sub/deep, dest: /c" + owned, []string{"/c/", "+/c/key k"}},
		"links that are kept": {"{source: /etc/links, dest: /c, merge: true, preserve_properties: true}", []string{
			"/c/", "+/c/away -> /etc/passwd", "+/c/nowhere -> gone"}},
		"pattern":              {"{source: '/etc/keys/?.key', dest: /k/" + owned, []string{"/k/a.key a", "/k/b.key b"}},
		"hidden":               {"{source: '/etc/keys/.*.key', dest: /k/" + owned, []string{"/k/.c.key c"}},
		"all but":              {"{source: '/etc/keys/[!a].key', dest: /k/" + owned, []string{"/k/b.key b"}},
		"the name of a file":   {"{source: '/etc/keys/[x].key', dest: /k/" + owned, []string{"/k/[x].key x"}},
		"directory in pattern": {"{source: '/etc/keys/[ad]*.key', dest: /k/" + owned, []string{"/k/a.key a", "/k/dir.key/", "+/k/dir.key/d d"}},
		"file in a directory":  {"{source: /etc/ceph/sub, dest: /c" + owned + "\n    - {content: x, dest: /c/x" + owned, []string{"/c/", "+/c/deep/", "+/c/deep/key k", "/c/x x"}},
		"merged over a file":   {"{content: x, dest: /c/x" + owned + "\n    - {source: /etc/ceph/sub, dest: /c, merge: true" + owned, []string{"/c/x x", "/c/", "+/c/deep/", "+/c/deep/key k"}},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := readConfig(t, onHost(t, files), c.entries)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, f := range target.Services[0].Files {
				r := target.Files["one"][i]
				text := f.Dest
				switch {
				case f.Directory:
					text += "/"
				case f.Link != "":
					text += " -> " + f.Link
				default:
					text += " " + string(r.Content)
				}
				if f.Part {
					text = "+" + text
				}
				if got = append(got, text); r.Name != f.Name || r.Directory != f.Directory || r.Link != f.Link || f.Preserve != (r.Keep != nil) || f.Preserve == (f.Owner == "nova") {
					t.Errorf("%+v is written as %+v", f, r)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWrongSources(t *testing.T) {
	files := map[string]string{
		"/etc/links/away": "->/etc/passwd", "/etc/up/up": "->../links", "/etc/gone": "->nowhere", "/etc/loop/loop": "->.",
		"/etc/one/f": "1", "/etc/hidden/.kollet/gate/open": "", "/etc/two/f": "2", "/run/pipe/": "", "/etc/big/a": strings.Repeat("x", mostBytes/2), "/etc/big/b": strings.Repeat("x", mostBytes/2+1), "/etc/pipes/": "",
	}
	for i := range mostFiles {
		files[fmt.Sprintf("/etc/many/%d", i)] = ""
	}
	n := onHost(t, files)
	if err := unix.Mkfifo(n.Path("/etc/pipes/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for entries, want := range map[string]string{
		"{source: /etc/nothing, dest: /a" + owned:                                         "config[0]: source /etc/nothing does not exist; create it, or set optional: true",
		"{content: x, dest: '/{{ printf \".kollet/x\" }}'" + owned:                        "config[0].dest: /.kollet is kollet's own",
		"{content: x, dest: '/a{{ printf \"/\" }}'" + owned:                               "config[0].dest: expected the absolute path of a file in the container, got \"/a/\"",
		"{content: x, dest: '/a/{{ .vars.gone }}'" + owned:                                "config[0].dest: ",
		"{content: x, dest: '{{ printf \"/a\" }}'" + owned:                                "config[0].dest: expected the absolute path",
		"{source: '{{ printf \"ca\" }}', dest: /a" + owned:                                "config[0].source: expected an absolute path on the host, got \"ca\"",
		"{source: '/etc/*.key', dest: /a/" + owned:                                        "config[0]: source /etc/*.key does not exist; create it, or set optional: true",
		"{source: /etc/gone, dest: /a, optional: true" + owned:                            "config[0]: source /etc/gone: no such file or directory",
		"{source: /etc/links, dest: /a" + owned:                                           "config[0]: source /etc/links/away is a symbolic link that leads nowhere, or out of /etc/links; ",
		"{source: /etc/up, dest: /a" + owned:                                              "config[0]: source /etc/up/up is a symbolic link that leads nowhere, or out of /etc/up; ",
		"{source: /etc/loop, dest: /a" + owned:                                            "config[0]: source /etc/loop",
		"{source: /etc/pipes, dest: /a" + owned:                                           "config[0]: source /etc/pipes/fifo is neither a file nor a directory",
		"{source: /etc/pipes/fifo, dest: /a" + owned:                                      "config[0]: source /etc/pipes/fifo is neither a file nor a directory",
		"{source: /etc/big, dest: /a" + owned:                                             "config[0]: source /etc/big has more than 16 MiB; mount it as a volume instead",
		"{source: /etc/many, dest: /a" + owned:                                            "config[0]: source /etc/many has more than 1000 files; mount it as a volume instead",
		"{source: /etc/one/, dest: /" + owned:                                             "config[0]: source /etc/one cannot be copied over the root directory; give another dest",
		"{source: '/etc/hidden/.*', dest: /" + owned:                                      "config[0]: source /etc/hidden/.kollet would be copied to /.kollet, and /.kollet is kollet's own; give another dest",
		"{source: '/etc/[ot]*/f', dest: /a/" + owned:                                      "config[0]: /a/f is written by services.one.config[0] too; remove one",
		"{source: /etc/one, dest: /a" + owned + "\n    - {content: x, dest: /a/f" + owned: "config[1]: /a/f is written by services.one.config[0] too; remove one",
		"{content: x, dest: /a/g" + owned + "\n    - {source: /etc/one, dest: /a" + owned: "config[1]: it replaces the directory /a, and removes /a/g of services.one.config[0]; put it first, or set merge: true",
	} {
		_, err := readConfig(t, n, entries)
		if err == nil || !strings.Contains(err.Error(), ": services.one."+want) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "node.yaml:") {
			t.Errorf("%s: got %v, want %s", entries, err, want)
		}
	}
}

func TestSourceWithProperties(t *testing.T) {
	n := onHost(t, map[string]string{"/etc/ceph/key": "k"})
	then := time.Unix(1700000000, 0)
	for name, mode := range map[string]os.FileMode{"/etc/ceph/key": 0o644, "/etc/ceph": 0o751 | os.ModeSetgid} {
		if err := os.Chmod(n.Path(name), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(n.Path(name), then, then); err != nil {
			t.Fatal(err)
		}
	}
	target, err := readConfig(t, n, "{source: /etc/ceph, dest: /c, preserve_properties: true}")
	if err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	for i, want := range []string{"/c 2751 ", "/c/key 0644 "} {
		f, keep := target.Services[0].Files[i], target.Files["one"][i].Keep
		if got := f.Dest + " " + f.Perm + " " + f.Owner; got != want+own || keep.Owner() != f.Owner || keep.Perm() != f.Perm || !keep.Time.Equal(then) {
			t.Errorf("got %s and %+v, want %s%s", got, keep, want, own)
		}
	}
	data, err := node.KollaConfig(withArgv(target.Services[0]))
	want := `{"source":"/var/lib/kolla/config_files/00-c","dest":"/c","preserve_properties":true}`
	if compact := strings.Join(strings.Fields(string(data)), ""); err != nil || !strings.Contains(compact, want) || strings.Contains(compact, "key") {
		t.Errorf("got %s, %v; want %s", compact, err, want)
	}
}

// A name with the characters of a pattern means itself.
func TestSourceNamedAsAPattern(t *testing.T) {
	target, err := readConfig(t, onHost(t, nil), "{content: x, dest: '/a[b]*?'"+owned)
	if err != nil {
		t.Fatal(err)
	}
	data, err := node.KollaConfig(withArgv(target.Services[0]))
	if want := `"/var/lib/kolla/config_files/00-a[[]b][*][?]"`; err != nil || !strings.Contains(string(data), want) {
		t.Errorf("got %s, %v; want %s", data, err, want)
	}
}

func withArgv(s generation.Service) generation.Service {
	s.Argv = []string{"nova"}
	return s
}

// A container that can write to a directory of the host cannot choose which files of the host
// it is given. Links of root are followed where only root can put them.
func TestSourcesFollowNoPlantedLink(t *testing.T) {
	const nova = 42436
	files := map[string]string{
		"/root/secret": "s", "/root/keys/shadow": "s",
		"/shared/x.conf": "->../root/secret", "/shared/sub": "->../root/keys", "/shared/own/shadow": "own", "/shared/near": "->own/shadow",
		"/open/root": "->../root/secret", "/sticky/root": "->../root/secret", "/group/root": "->../root/secret",
		"/safe/foreign": "->../root/secret", "/safe/link": "->../root/secret", "/safe/dir": "->../root/keys", "/safe/real": "r", "/safe/here": "->real",
		"/safe/two": "->../shared/x.conf",
	}
	n := onHost(t, files)
	for name, mode := range map[string]os.FileMode{"/open": 0o777, "/sticky": 0o777 | os.ModeSticky, "/group": 0o775, "/safe": 0o755} {
		if err := os.Chmod(n.Path(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/shared", "/shared/x.conf", "/shared/sub", "/shared/near", "/safe/foreign"} {
		if err := os.Lchown(n.Path(name), nova, nova); err != nil {
			t.Fatal(err)
		}
	}
	for source, want := range map[string]string{ // part of the error; empty: none
		"/shared/x.conf":          "/shared/x.conf is a symbolic link that others than root could have put there; ",
		"/shared/*.conf":          "/shared/x.conf is a symbolic link that others than root could have put there; ",
		"/shared/sub/shadow":      "/shared/sub is a symbolic link that others than root",
		"/shared/sub/sha*":        "/shared/sub is a symbolic link that others than root",
		"/shared/[s]*/shadow":     "source /shared/[s]*/shadow does not exist",
		"/shared/*/shadow":        "",
		"/shared/near":            "/shared/near is a symbolic link that others than root",
		"/open/root":              "/open/root is a symbolic link that others than root",
		"/sticky/root":            "/sticky/root is a symbolic link that others than root",
		"/group/root":             "/group/root is a symbolic link that others than root",
		"/safe/foreign":           "/safe/foreign is a symbolic link that others than root",
		"/safe/two":               "/shared/x.conf is a symbolic link that others than root",
		"/safe/link":              "",
		"/safe/dir/shadow":        "",
		"/safe/dir/sha*":          "",
		"/safe/h*":                "",
		"/safe/l*":                "source /safe/link is a symbolic link that leads out of the directory of the pattern /safe/l*; name it as a source of its own",
		"/safe/*/../../safe/real": "",
		"/safe/real/*":            "source /safe/real/*: not a directory",
	} {
		_, err := readConfig(t, n, "{source: '"+source+"', dest: /a/"+owned)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got error %v, want %q", source, err, want)
		}
	}
}
