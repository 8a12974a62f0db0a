package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/machine"
)

// ailment is how a service's container gets into a state.
type ailment struct {
	begin    func(s *sickNode, c containers.Container)
	end      func(s *sickNode) // takes the cause away, if an upgrade does not
	prevents bool              // with it, no upgrade begins a cutover
}

func (a ailment) cure(s *sickNode) {
	if a.end != nil {
		a.end(s)
	}
}

// imageGone is the state of a service whose image was removed while its container runs.
const imageGone = "image gone"

// ailments are the states that docs/reliability.md lists.
var ailments = map[string]ailment{
	"running": {begin: func(*sickNode, containers.Container) {}},
	"restarting": {begin: func(s *sickNode, c containers.Container) {
		check(s.T, os.Remove(s.file())) // it needs this file to start
		s.kill(c)
		s.becomes(c.ID, func(now containers.Container) bool {
			return now.State == containers.StateRestarting || now.Restarts > 0
		})
	}},
	"paused": {begin: func(s *sickNode, c containers.Container) {
		for _, cmd := range s.engine.Pause(c.ID) {
			run(s.T, cmd)
		}
	}},
	"exited with 0": {begin: func(s *sickNode, c containers.Container) {
		check(s.T, s.Engine.Stop(context.Background(), c.ID, time.Minute))
	}},
	"killed": {begin: func(s *sickNode, c containers.Container) {
		check(s.T, s.Engine.Update(context.Background(), c.ID, "alpha", containers.RestartNo))
		s.kill(c)
		s.becomes(c.ID, func(now containers.Container) bool { return now.State == containers.StateExited })
	}},
	"killed for memory": {begin: func(s *sickNode, c containers.Container) {
		machine.NewCgroups(s.T).LimitMemory(c.PID, 32<<20)
		check(s.T, syscall.Kill(c.PID, syscall.SIGUSR1)) // it takes all that it can get
		s.becomes(c.ID, func(now containers.Container) bool {
			return now.State == containers.StateRunning && now.Restarts > 0
		})
	}},
	imageGone: {begin: func(s *sickNode, c containers.Container) {
		check(s.T, s.Engine.Stop(context.Background(), c.ID, time.Minute)) // Docker keeps it for a container that runs
		run(s.T, s.engine.Forget(c.ImageID))
		if _, err := s.Engine.Image(context.Background(), c.ImageID); !errors.Is(err, containers.ErrNotFound) {
			s.T.Fatalf("the image is there: %v", err)
		}
		check(s.T, s.Engine.Start(context.Background(), c.ID))
		answer(s.T, s.address)
	}},
	"volume gone": {
		begin:    func(s *sickNode, _ containers.Container) { check(s.T, os.Remove(s.volume)) },
		end:      func(s *sickNode) { check(s.T, os.Mkdir(s.volume, 0o700)) },
		prevents: true,
	},
	hung: {
		begin: (*sickNode).freeze,
		end:   (*sickNode).thaw,
	},
	"created": {begin: func(s *sickNode, c containers.Container) {
		s.remove(c)
		_, err := s.Engine.Create(context.Background(), c.Spec)
		check(s.T, err)
	}},
	"removed": {begin: func(s *sickNode, c containers.Container) { s.remove(c) }},
	"dead, removed in part": {begin: func(s *sickNode, c containers.Container) {
		s.hold(c)
		check(s.T, s.Engine.Stop(context.Background(), c.ID, 0))
		if err := s.Engine.Remove(context.Background(), c.ID); err == nil {
			s.T.Fatal("the container was removed")
		}
		switch s.engine.Name {
		case "docker":
			contains(s.T, s.inspect(c), `"Status": "dead"`)
		case "podman":
			contains(s.T, run(s.T, s.engine.Docker("ps", "--all", "--external", "--no-trunc")), c.ID)
		}
	}},
	"replaced": {begin: func(s *sickNode, c containers.Container) {
		s.remove(c)
		id, err := s.Engine.Create(context.Background(), containers.Spec{Name: "alpha", Image: c.ImageID, NetworkMode: "host", Command: []string{"serve", s.address}})
		check(s.T, err)
		check(s.T, s.Engine.Start(context.Background(), id))
		s.T.Cleanup(func() {
			_ = s.Engine.Stop(context.Background(), id, 0)
			_ = s.Engine.Remove(context.Background(), id)
		})
	}},
	"renamed": {begin: func(s *sickNode, c containers.Container) {
		check(s.T, s.Engine.Update(context.Background(), c.ID, "old-alpha", c.Spec.Restart))
	}},
	"cannot be removed": {begin: func(s *sickNode, c containers.Container) { s.hold(c) }},
}

// kill kills a container's process, unless it is between two runs.
func (s *sickNode) kill(c containers.Container) {
	s.T.Helper()
	if c.PID == 0 { // kill(2) would take it for the process group of this test
		return
	}
	if err := syscall.Kill(c.PID, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		check(s.T, err)
	}
}

func (s *sickNode) remove(c containers.Container) {
	s.T.Helper()
	check(s.T, s.Engine.Stop(context.Background(), c.ID, 0))
	check(s.T, s.Engine.Remove(context.Background(), c.ID))
}

// becomes waits until a container is as required.
func (s *sickNode) becomes(id string, holds func(containers.Container) bool) {
	s.T.Helper()
	s.Await("the container gets into the state", func() bool {
		c, err := s.Engine.Inspect(context.Background(), id)
		check(s.T, err)
		return holds(c)
	})
}

// hold keeps a container from being removed until the test ends: the engine may not
// remove an immutable file (ioctl_iflags(2)).
func (s *sickNode) hold(c containers.Container) {
	s.T.Helper()
	path := filepath.Join(s.engine.Files(s.Root, c.ID), "immutable")
	if _, err := os.Stat(path); err == nil {
		return // it is held already
	}
	f, err := os.Create(path)
	check(s.T, err)
	check(s.T, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0x10))
	s.T.Cleanup(func() {
		check(s.T, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0))
		check(s.T, f.Close())
	})
}

// inspect returns all that the engine says about a container.
func (s *sickNode) inspect(c containers.Container) string {
	s.T.Helper()
	var all strings.Builder
	for _, cmd := range s.engine.Inspect(c) {
		all.WriteString(run(s.T, cmd))
	}
	return all.String()
}
