package firstboot_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/firstboot"
)

var node = firstboot.Unit{Engine: "docker", Program: "/usr/local/bin/kollet", State: "/var/lib/kollet"}

// The page shows the unit as most nodes get it.
func TestDocsShowTheUnit(t *testing.T) {
	page, err := os.ReadFile("../../docs/recovery.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "```ini\n# /etc/systemd/system/kollet-recover.service\n" + node.Text() + "```\n"; !strings.Contains(string(page), want) {
		t.Errorf("docs/recovery.md does not show the unit; put this there:\n%s", want)
	}
}

// systemd accepts the unit with any characters in its paths.
func TestSystemdTakesTheUnit(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatal("systemd-analyze is missing; install it with: make deps")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "a kollet%n") // systemd takes no program with quotes or a backslash
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, u := range map[string]firstboot.Unit{
		"docker":     {Engine: "docker", Program: "/bin/true", State: "/var/lib/kollet"},
		"containerd": {Engine: "containerd", Program: "/bin/true", State: "/var/lib/kollet"},
		"podman":     {Engine: "podman", Program: "/bin/true", State: "/var/lib/kollet"},
		"odd":        {Engine: "docker", Program: program, Flags: []string{"--root", "/a b%n/$HOME;'", "--host", ""}, State: "/a b%n/var/lib/kollet"},
	} {
		t.Run(name, func(t *testing.T) {
			// Other units of this machine do not count.
			path := filepath.Join(dir, name, firstboot.UnitName)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(u.Text()), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(verify, "verify", "--man=no", "--recursive-errors=no", path)
			if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), firstboot.UnitName) {
				t.Errorf("%v: %s\n%s", err, out, u.Text())
			}
		})
	}
}

func TestInterruptedFIFO(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, firstboot.BegunPath)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := firstboot.Interrupted(root); err == nil || !strings.HasSuffix(err.Error(), " is a FIFO, not a regular file; remove it and run `kollet bootstrap`") {
		t.Errorf("got %v", err)
	}
}

func TestInstall(t *testing.T) {
	root := t.TempDir()
	if firstboot.Booted(root) {
		t.Error("there is no systemd below an empty root")
	}
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	if !firstboot.Booted(root) {
		t.Error("there is a systemd")
	}
	path := filepath.Join(root, "etc/systemd/system", firstboot.UnitName)
	link := filepath.Join(root, "etc/systemd/system/multi-user.target.wants", firstboot.UnitName)
	other := node
	other.Engine = "containerd"
	for _, step := range []struct {
		name    string
		before  func() error
		unit    firstboot.Unit
		changed bool
	}{
		{"first", nil, node, true},
		{"again", nil, node, false},
		{"another engine", nil, other, true},
		{"edited", func() error { return os.WriteFile(path, nil, 0o644) }, other, true},
		{"disabled", func() error { return os.Remove(link) }, other, true},
		{"removed", func() error { return os.Remove(path) }, other, true},
	} {
		t.Run(step.name, func(t *testing.T) {
			if step.before != nil {
				if err := step.before(); err != nil {
					t.Fatal(err)
				}
			}
			changed, err := step.unit.Install(t.Context(), root)
			if err != nil || changed != step.changed {
				t.Errorf("changed %v, %v", changed, err)
			}
			text, err := os.ReadFile(path)
			if err != nil || string(text) != step.unit.Text() {
				t.Errorf("%v: %s", err, text)
			}
			if target, err := os.Readlink(link); err != nil || target != "/etc/systemd/system/"+firstboot.UnitName {
				t.Errorf("link to %q, %v", target, err)
			}
		})
	}
}

func TestMarkAndRecord(t *testing.T) {
	root := t.TempDir()
	if b, err := firstboot.Interrupted(root); b != nil || err != nil {
		t.Errorf("got %+v, %v", b, err)
	}
	want := firstboot.Begun{
		Kollet: "1.0",
		Time:   time.Unix(1700000000, 0).UTC(), Images: map[string]string{"web": "web:2"}, Tag: "v1", Pull: "never",
		Archives: []string{"/a/*.tar"}, Wait: time.Minute, Generation: 3,
	}
	if err := firstboot.Begin(root, want); err != nil {
		t.Fatal(err)
	}
	if got, err := firstboot.Interrupted(root); err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for range 2 { // a power loss between record and mark has it end twice
		if err := firstboot.End(root, firstboot.Finished{OK: true}); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := firstboot.Interrupted(root); b != nil || err != nil {
		t.Errorf("got %+v, %v", b, err)
	}
	if data, err := os.ReadFile(filepath.Join(root, firstboot.FinishedPath)); err != nil || !strings.Contains(string(data), `"ok": true`) {
		t.Errorf("%v: %s", err, data)
	}
}
