package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/containers"
)

// fakeSystemd answers systemctl for units of a node, and reads drop-ins when it reloads.
type fakeSystemd struct {
	fails  int               // so many reloads
	read   map[string]string // by the path of a drop-in
	listed []string          // paths that it could have read
	did    []string
}

func (s *fakeSystemd) systemctl(args ...string) (string, error) {
	if args[0] == "show" {
		if args[2] == "ActiveState" {
			return "inactive", nil
		}
		return s.show(), nil
	}
	s.did = append(s.did, strings.Join(args, " "))
	if s.fails--; args[0] == "daemon-reload" && s.fails >= 0 {
		return "", errors.New("systemd does not answer")
	}
	if args[0] == "daemon-reload" {
		s.read = map[string]string{}
		for _, path := range s.listed {
			if text, err := os.ReadFile(path); err == nil {
				s.read[path] = string(text)
			}
		}
	}
	return "", nil
}

func (s *fakeSystemd) show() string {
	needed, paths := "no", []string{}
	for path, text := range s.read {
		paths = append(paths, path)
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			needed = "yes"
		}
	}
	return "NeedDaemonReload=" + needed + "\nDropInPaths=" + strings.Join(paths, " ")
}

// unitNode is an adopted node on which systemd starts nova_compute.
func unitNode(t *testing.T) (*Node, containers.Container, *fakeSystemd) {
	t.Helper()
	n, _ := adoptedNode(t)
	unit := n.Path("/etc/systemd/system/kolla-nova_compute-container.service")
	c, err := n.Container(t.Context(), "nova-compute", 0)
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(unit), 0o755), os.WriteFile(unit, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := &fakeSystemd{listed: []string{unit + ".d/kollet.conf"}}
	n.systemd = s.systemctl
	return n, c, s
}

// A unit is held when systemd has read its drop-in, which may have been written before kollet was
// killed. One that is held already costs no reload.
func TestHoldUnitAgain(t *testing.T) {
	n, c, systemd := unitNode(t)
	reloads := func(want int, failed bool) {
		t.Helper()
		systemd.did = nil
		if err := n.Hold(t.Context(), c); (err != nil) != failed {
			t.Fatal(err)
		}
		if len(systemd.did) != want || !failed && len(systemd.read) != 1 {
			t.Errorf("it did %q, systemd has read %q", systemd.did, systemd.read)
		}
	}
	systemd.fails = 2
	reloads(1, true)
	reloads(1, true)
	reloads(1, false)
	reloads(0, false)
	for path := range systemd.read { // systemd has read one with other content, and kollet was killed after the write
		systemd.read[path] = "[Unit]\n"
	}
	reloads(1, false)
}

// The policy of a container that systemd starts says nothing. Without a unit, nothing else does.
func TestIsHeld(t *testing.T) {
	const no, always = containers.RestartNo, containers.RestartAlways
	for name, c := range map[string]struct {
		was, now   containers.Restart
		unit, hold bool
		want       bool
	}{
		"the engine starts it again":      {always, always, false, false, false},
		"it does not any longer":          {always, no, false, false, true},
		"systemd starts it again":         {no, no, true, false, false},
		"systemd does not any longer":     {no, no, true, true, true},
		"both did, the engine still does": {always, always, true, true, false},
		"both did":                        {always, no, true, true, true},
		"nothing ever did":                {no, no, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			n, container, _ := unitNode(t)
			a, err := n.Store().Adopted()
			if err != nil {
				t.Fatal(err)
			}
			a.Containers["nova-compute"] = generation.Container{ID: container.ID, Name: "nova_compute", Restart: c.was}
			err = n.Store().SetAdopted(a)
			if !c.unit {
				err = errors.Join(err, os.Remove(n.Path("/etc/systemd/system/kolla-nova_compute-container.service")))
			}
			if c.hold {
				err = errors.Join(err, n.Hold(t.Context(), container))
			}
			if err != nil {
				t.Fatal(err)
			}
			container.Spec.Restart = c.now
			if held, err := n.IsHeld(container); err != nil || held != c.want {
				t.Errorf("%v, %v", held, err)
			}
		})
	}
}

// A container that cannot be started, or was removed, leaves its unit to kolla-ansible, which may create
// another. Nothing starts the unit.
func TestLetGo(t *testing.T) {
	for name, give := range map[string]func(n *Node, e *fakeEngine, c containers.Container) error{
		"cannot be started": func(n *Node, e *fakeEngine, c containers.Container) error {
			e.broken = errors.New("no space left")
			if err := n.Return(t.Context(), c, true); !errors.Is(err, e.broken) {
				return err
			}
			return nil
		},
		"removed": func(n *Node, _ *fakeEngine, c containers.Container) error {
			return errors.Join(n.LetGo(t.Context(), "another"), n.LetGo(t.Context(), c.ID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, c, systemd := unitNode(t)
			if err := n.Hold(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			systemd.did = nil
			if err := give(n, n.Engine.(recognising).Engine.(*fakeEngine), c); err != nil {
				t.Error(err)
			}
			if len(systemd.read) > 0 || strings.Join(systemd.did, ", ") != "daemon-reload" {
				t.Errorf("it did %q, systemd has read %q", systemd.did, systemd.read)
			}
		})
	}
}
