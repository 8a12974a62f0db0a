package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kollet/kollet/test/machine"
)

const (
	look  = 20 * time.Millisecond  // interval at which the console is read
	every = 5                      // show every fifth tick, about one per second
	dense = 700 * time.Millisecond // show all ticks for this long after output of the command
	after = 10                     // number of ticks to wait for after the command has exited
	limit = time.Minute            // time limit for these ticks
)

// watch runs the command beside the guest.
func watch(console string, pid int, command []string) (status int, err error) {
	before, err := started(pid)
	if err != nil {
		return 0, err
	}
	s := &screen{}
	c := &counter{path: console, screen: s}
	if err := c.look(); err != nil {
		return 0, err
	}
	first := c.last
	if status, err = c.during(command); err != nil {
		return status, err
	}
	if err := c.until(c.last + after); err != nil {
		return status, err
	}
	now, err := started(pid)
	if err != nil {
		return 1, fmt.Errorf("the guest is gone: %w", err)
	}
	if now != before {
		return 1, fmt.Errorf("process %d is no longer the guest", pid)
	}
	ticks, err := machine.Ticks(console)
	if err != nil {
		return 1, err
	}
	// The console's file may have been rotated, so it need not begin with 1.
	for i := 1; i < len(ticks); i++ {
		if ticks[i] != ticks[i-1]+1 {
			return 1, fmt.Errorf("the guest's count is broken: tick %d after %d", ticks[i], ticks[i-1])
		}
	}
	s.line("guest", fmt.Sprintf("process %d counted from %d to %d without a gap; longest pause %.2f s", pid, first, c.last, c.pause.Seconds()))
	return status, nil
}

// during runs the command, and shows its output and the guest's count until it exits.
func (c *counter) during(command []string) (status int, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	ended := make(chan error, 1)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.screen.line("kollet", lines.Text())
		}
		_, _ = io.Copy(io.Discard, out) // a line that is too long must not stop the command
	}()
	go func() {
		err := cmd.Run()
		w.Close()
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			<-shown
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				return exit.ExitCode(), nil
			}
			return 0, err
		case <-time.After(look):
			if err := c.look(); err != nil {
				return 0, err
			}
		}
	}
}

// counter follows a guest's count.
type counter struct {
	path   string
	screen *screen
	last   int
	at     time.Time     // when it was seen
	pause  time.Duration // the longest between two ticks
}

func (c *counter) look() error {
	ticks, err := machine.Ticks(c.path)
	if err != nil || len(ticks) == 0 || ticks[len(ticks)-1] == c.last {
		return err
	}
	now := time.Now()
	if !c.at.IsZero() {
		c.pause = max(c.pause, now.Sub(c.at))
	}
	if n := ticks[len(ticks)-1]; c.last == 0 || n/every != c.last/every || now.Sub(c.screen.said()) < dense {
		c.screen.line("console", fmt.Sprintf("tick %d", n))
	}
	c.last, c.at = ticks[len(ticks)-1], now
	return nil
}

func (c *counter) until(n int) error {
	for deadline := time.Now().Add(limit); c.last < n; time.Sleep(look) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the guest's console stopped at tick %d", c.last)
		}
		if err := c.look(); err != nil {
			return err
		}
	}
	return nil
}

// started returns a process's start time in clock ticks after boot, field 22 of
// proc_pid_stat(5). Together with the process id it identifies a process.
func started(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	// The second field, in parentheses, may contain spaces.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat is malformed: %q", pid, stat)
	}
	return fields[19], nil
}

// screen prints whole lines, with the time.
type screen struct {
	mu     sync.Mutex
	kollet time.Time
}

func (s *screen) line(who, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if who == "kollet" {
		s.kollet = now
	}
	fmt.Printf("%s  %-7s  %s\n", now.Format("15:04:05.000"), who, text)
}

// said returns the time of kollet's last output.
func (s *screen) said() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kollet
}
