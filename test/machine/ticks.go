package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Ticks returns the numbers on a guest's console in their order. It ignores other lines and
// an incomplete last line. A console that does not exist yet has no ticks.
func Ticks(path string) ([]int, error) {
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("read a guest's console: %w", err)
	}
	ticks, err := parseTicks(string(text))
	if err != nil {
		return nil, fmt.Errorf("read a guest's console %s: %w", path, err)
	}
	return ticks, nil
}

func parseTicks(text string) ([]int, error) {
	var ticks []int
	for line := range strings.Lines(text) {
		complete, ended := strings.CutSuffix(line, "\n")
		number, counts := strings.CutPrefix(strings.TrimRight(complete, "\r"), "tick ")
		if !ended || !counts {
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("a tick without its number: %q", line)
		}
		ticks = append(ticks, n)
	}
	return ticks, nil
}

// Unbroken returns an error if a guest's count skips or repeats a number, or does not start
// at 1. Then the guest was interrupted or restarted.
func Unbroken(ticks []int) error {
	for i, n := range ticks {
		if n != i+1 {
			return fmt.Errorf("guest's count is broken: tick %d, expected %d", n, i+1)
		}
	}
	return nil
}

// AwaitLine waits until a guest's console has a complete line. It fails the test if the line
// does not come.
func AwaitLine(t TB, path, want string) {
	t.Helper()
	for deadline := time.Now().Add(ready); ; time.Sleep(50 * time.Millisecond) {
		console, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatalf("read a guest's console: %v", err)
		}
		for line := range strings.Lines(string(console)) {
			if strings.TrimRight(line, "\r\n") == want && strings.HasSuffix(line, "\n") {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("guest's console, %s, has no line %q:\n%s", path, want, console)
		}
	}
}

// AwaitTick waits until the guest has counted to n, and returns the last tick. It fails the
// test if the guest does not reach n.
func AwaitTick(t TB, path string, n int) int {
	t.Helper()
	for deadline := time.Now().Add(ready); ; time.Sleep(50 * time.Millisecond) {
		ticks, err := Ticks(path)
		if err != nil {
			t.Fatalf("%v", err)
		}
		last := 0
		if len(ticks) > 0 {
			last = ticks[len(ticks)-1]
		}
		if last >= n {
			return last
		}
		if time.Now().After(deadline) {
			console, _ := os.ReadFile(path)
			t.Fatalf("guest did not count to %d; its console, %s:\n%s", n, path, console)
		}
	}
}
