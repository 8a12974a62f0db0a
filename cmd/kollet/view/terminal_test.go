package view

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/plan"
)

// onTerminal runs f with a terminal (pty(7)) and returns what it showed.
func onTerminal(t *testing.T, f func(tty *os.File)) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, master) // ends with EIO when the other side is closed
		shown <- b.String()
	}()
	f(tty)
	tty.Close()
	return <-shown
}

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// settled is what is left on the screen of lines that were written over.
func settled(shown string) []string {
	var lines []string
	for line := range strings.SplitSeq(shown, "\n") {
		line = strings.TrimRight(line, "\r")
		if i := strings.LastIndex(line, eraseLine); i >= 0 {
			line = line[i+len(eraseLine):]
		}
		lines = append(lines, line)
	}
	return lines
}

func TestLive(t *testing.T) {
	shown := onTerminal(t, func(tty *os.File) {
		s, _, _ := screen(Table)
		s.Err = tty
		s.Getenv = environment(map[string]string{"TERM": "linux", "LANG": "C.UTF-8", "NO_COLOR": "1"})
		p := New(s)
		for _, e := range []node.Event{
			{Kind: node.StepBegins, Step: "check"},
			{Kind: node.Note, Text: "mind the gap"},
			{Kind: node.StepEnds, Step: "check", Text: "1.5s"},
			{Kind: node.StepBegins, Step: "stage"},
			{Kind: node.StepFails, Step: "stage", Text: "why"},
			{Kind: node.StepBegins, Step: "undo stage"},
			{Kind: node.StepBegins, Step: "undo render"},
		} {
			p.Progress(e)
		}
		p.Say("interrupted")
		p.Close()
	})
	want := []string{"mind the gap", "✓ check  1.5s", "✗ stage", "✓ undo stage", "interrupted", ""}
	if got := settled(shown); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q, of %q", got, want, shown)
	}
	if strings.Contains(shown, "\x1b[3") {
		t.Errorf("coloured in spite of NO_COLOR: %q", shown)
	}
}

func TestLiveBars(t *testing.T) {
	shown := onTerminal(t, func(tty *os.File) {
		s, _, _ := screen(Table)
		s.Err = tty
		s.Getenv = environment(map[string]string{"TERM": "linux"})
		p := New(s)
		p.Progress(node.Event{Kind: node.StepBegins, Step: "pull"})
		for i := range int64(5) {
			p.Progress(node.Event{Kind: node.Pulling, Service: "web", Done: i << 20, Total: 8 << 20})
			p.Progress(node.Event{Kind: node.Pulling, Service: "db", Done: i << 20, Total: 4 << 20})
			p.Progress(node.Event{Kind: node.Pulling, Service: "cache", Done: i, Total: 0}) // not known yet
		}
		p.Say("interrupted")
		p.Progress(node.Event{Kind: node.StepEnds, Step: "pull", Text: "3s"})
		p.Close()
	})
	if !strings.Contains(shown, "interrupted") {
		t.Errorf("what was said beside the bars is lost: %q", shown)
	}
	lines := settled(shown)
	if last := lines[len(lines)-2]; last != "\x1b[32mok\x1b[0m pull  3.0s" {
		t.Errorf("the last line is %q of %q", last, shown)
	}
}

func TestDumbTerminalGetsLines(t *testing.T) {
	shown := onTerminal(t, func(tty *os.File) {
		s, _, _ := screen(Table)
		s.Err = tty
		s.Getenv = environment(map[string]string{"TERM": "dumb"})
		p := New(s)
		p.Progress(node.Event{Kind: node.StepBegins, Step: "check"})
		p.Close()
	})
	if shown != "check: started\r\n" {
		t.Errorf("got %q", shown)
	}
}

func TestColour(t *testing.T) {
	plan := Plan{Plan: plan.Plan{Changes: []plan.Change{{Service: "web", Action: plan.Replace, Files: []plan.FileChange{{Path: "/a", Diff: "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"}}}}}}
	for _, test := range []struct {
		name string
		env  map[string]string
		want bool
	}{
		{"terminal", map[string]string{"TERM": "linux"}, true},
		{"NO_COLOR", map[string]string{"TERM": "linux", "NO_COLOR": "1"}, false},
		{"empty NO_COLOR", map[string]string{"TERM": "linux", "NO_COLOR": ""}, true},
		{"dumb", map[string]string{"TERM": "dumb"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			shown := onTerminal(t, func(tty *os.File) {
				s, _, _ := screen(Table)
				s.Out, s.Getenv = tty, environment(test.env)
				if err := New(s).Show(plan); err != nil {
					t.Error(err)
				}
			})
			for _, line := range []string{"\x1b[31m        -x\x1b[0m", "\x1b[32m        +y\x1b[0m", "\x1b[36m        @@"} {
				if strings.Contains(shown, line) != test.want {
					t.Errorf("%q: want %v in %q", line, test.want, shown)
				}
			}
		})
	}
}

// User-data is for servers and has parts of others: a terminal gets none of their control
// characters, and everything else gets the bytes.
func TestUserDataOnATerminal(t *testing.T) {
	data := UserData{Data: []byte("#!/bin/sh\necho \x1b[2J\a\xff\n")}
	shown := onTerminal(t, func(tty *os.File) {
		s, _, _ := screen(Table)
		s.Out = tty
		if err := New(s).Show(data); err != nil {
			t.Error(err)
		}
	})
	if shown != "#!/bin/sh\r\necho \uFFFD[2J\uFFFD\uFFFD\r\n" {
		t.Errorf("got %q", shown)
	}
	s, out, _ := screen(Table)
	if err := New(s).Show(data); err != nil || out.String() != string(data.Data) {
		t.Errorf("elsewhere: %q, %v", out, err)
	}
}
