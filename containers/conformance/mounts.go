package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/containers"
)

var mountTests = []test{
	{"bind mount, writable or read-only", func(t *testing.T, s *suite) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "in"), []byte("from the host\n"), 0o644))
		spec := s.script("cat /rw/in; echo x > /rw/out; (echo x > /ro/never) 2>/dev/null; cat /file")
		spec.Mounts = []containers.Mount{
			{Type: containers.Bind, Source: dir, Target: "/rw"},
			{Type: containers.Bind, Source: dir, Target: "/ro", ReadOnly: true},
			{Type: containers.Bind, Source: filepath.Join(dir, "in"), Target: "/file"},
		}
		equal(t, "output", s.run(t, spec), "from the host\nfrom the host")
		for file, want := range map[string]bool{"out": true, "never": false} {
			_, err := os.Stat(filepath.Join(dir, file))
			equal(t, file+" exists", err == nil, want)
		}
	}},
	{"mount in a shared bind mount propagates to the host", func(t *testing.T, s *suite) {
		for propagation, want := range map[string]bool{"rshared": true, "shared": true, "rslave": false, "": false} {
			dir := sharedDir(t)
			must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
			spec := s.script("mount -t tmpfs none /b/sub && touch /b/sub/made; " + forever)
			spec.Privileged = true
			spec.Mounts = []containers.Mount{{Type: containers.Bind, Source: dir, Target: "/b", Propagation: propagation}}
			id := s.start(t, spec)
			s.awaitUp(t, id)
			equal(t, "visible inside", s.exec(t, id, "ls", "/b/sub"), "made")
			_, err := os.Stat(filepath.Join(dir, "sub/made"))
			equal(t, "visible outside with "+propagation, err == nil, want)
		}
	}},
	{"mount of the host propagates to a shared or slave bind mount", func(t *testing.T, s *suite) {
		for propagation, want := range map[string]string{"rshared": "made", "rslave": "made", "rprivate": ""} {
			dir := sharedDir(t)
			sub := filepath.Join(dir, "sub")
			must(t, os.Mkdir(sub, 0o755))
			spec := s.script(forever)
			spec.Mounts = []containers.Mount{{Type: containers.Bind, Source: dir, Target: "/b", Propagation: propagation}}
			id := s.start(t, spec)
			s.awaitUp(t, id)
			must(t, unix.Mount("none", sub, "tmpfs", 0, ""))
			must(t, os.WriteFile(filepath.Join(sub, "made"), nil, 0o644))
			equal(t, "seen with "+propagation, s.exec(t, id, "ls", "/b/sub"), want)
		}
	}},
	{"new volume has the image's content", func(t *testing.T, s *suite) {
		spec := s.script("cat /data/shipped; stat -c %u:%g:%a /data /data/shipped")
		spec.Mounts = []containers.Mount{{Type: containers.Volume, Source: unique("v"), Target: "/data"}}
		equal(t, "volume", s.run(t, spec), "with the image\n42436:42436:750\n42436:42436:640")
	}},
	{"volume outlives its containers", func(t *testing.T, s *suite) {
		volume := containers.Mount{Type: containers.Volume, Source: unique("v"), Target: "/data"}
		first := s.script("echo kept > /data/file; rm /data/shipped; echo gone > /file")
		first.Mounts = []containers.Mount{volume}
		id := s.start(t, first)
		s.await(t, id, containers.StateExited)
		must(t, s.Engine.Remove(t.Context(), id))
		second := s.script("cat /data/file; ls /data /file 2>/dev/null; touch /data/x 2>/dev/null; true")
		second.Name, second.Mounts = first.Name, []containers.Mount{volume}
		second.Mounts[0].ReadOnly = true
		equal(t, "the next container sees", s.run(t, second), "kept\n/data:\nfile")
	}},
	{"tmpfs with a size and a mode", func(t *testing.T, s *suite) {
		spec := s.script("stat -c %a /plain /both; df -k /both | tail -n 1 | awk '{print $2}'; head -c 2000000 /dev/zero > /both/file 2>/dev/null || echo full")
		spec.Mounts = []containers.Mount{{Type: containers.Tmpfs, Target: "/plain"}, {Type: containers.Tmpfs, Target: "/both", Size: 1 << 20, Mode: "0750"}}
		out := s.run(t, spec)
		if lines := strings.Split(out, "\n"); len(lines) < 4 || lines[1] != "750" || lines[0] == "750" || lines[2] != "1024" || !strings.HasSuffix(out, "full") {
			t.Errorf("got %q", out)
		}
	}},
	{"nested mounts in any order", func(t *testing.T, s *suite) {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, "b"), 0o755))
		spec := s.script("touch /a/b/c/deep; ls /a /a/b")
		spec.Mounts = []containers.Mount{
			{Type: containers.Tmpfs, Target: "/a/b/c"},
			{Type: containers.Volume, Source: unique("v"), Target: "/a/b"},
			{Type: containers.Bind, Source: dir, Target: "/a"},
		}
		equal(t, "seen", s.run(t, spec), "/a:\nb\n\n/a/b:\nc")
	}},
}

// sharedDir returns a directory that is a shared mount point.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	must(t, unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""))
	t.Cleanup(func() {
		if err := unix.Unmount(filepath.Join(dir, "sub"), unix.MNT_DETACH); err != nil && !os.IsNotExist(err) && err != unix.EINVAL {
			t.Error(err)
		}
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
