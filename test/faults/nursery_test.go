package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What alpha is while it breeds guests: its container's first process, or the child of one.
type manner string

const (
	isFirst      manner = "the first process"
	belowWaiting manner = "below an init, which waits"
	belowLeaving manner = "below a shell, which does not"
)

var manners = []manner{isFirst, belowWaiting, belowLeaving}

// nursery is the directory that alpha shares with a test, and what alpha is.
type nursery struct {
	dir    string
	manner manner // of the next generation
}

// birth is a guest that alpha has started.
type birth struct {
	pid   int
	start string    // see stat
	at    time.Time // when alpha had recorded it
	last  bool      // after SIGTERM
}

// In the container the directory has another name, so that no process is found by it.
const nurseryDir = "/nursery"

func (n *nursery) volumes() string {
	return fmt.Sprintf(`volumes: ["%s:%s"]`, n.dir, nurseryDir)
}

// command returns alpha's, which breeds guests with a UUID.
func (n *nursery) command(address, uuid string) string {
	breeds := fmt.Sprintf(`breed, "%s", /etc/word, %s, %s`, address, nurseryDir, uuid)
	switch n.manner {
	case belowWaiting:
		return "[under, wait, /bin/tiny, " + breeds + "]"
	case belowLeaving:
		return "[under, leave, /bin/tiny, " + breeds + "]"
	default:
		return "[" + breeds + "]"
	}
}

// write puts a file into place that alpha reads at any time.
func (n *nursery) write(name string, number int) error {
	path := filepath.Join(n.dir, name)
	if err := os.WriteFile(path+".new", []byte(strconv.Itoa(number)), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// order lets guests be born from now on, with pauses of up to this long between them.
func (n *nursery) order(pause time.Duration) error {
	return n.write("orders", int(pause.Microseconds()))
}

// orderLast sets how many guests are born after SIGTERM.
func (n *nursery) orderLast(number int) error { return n.write("last", number) }

// enough ends the orders.
func (n *nursery) enough() error {
	if err := os.Remove(filepath.Join(n.dir, "orders")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// births returns the guests that were born since the nursery was emptied. A last line that
// is not whole is none: alpha has been killed before it counted.
func (n *nursery) births() ([]birth, error) {
	text, err := os.ReadFile(filepath.Join(n.dir, "born"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []birth
	for line := range strings.Lines(string(text)) {
		var b birth
		var at int64
		var how string
		if _, err := fmt.Sscanf(line, "%d %s %d %s\n", &b.pid, &b.start, &at, &how); err == nil {
			b.at, b.last = time.Unix(0, at), how == "last"
			all = append(all, b)
		}
	}
	return all, nil
}

// lost returns those that do not run any longer.
func lost(all []birth) []birth {
	var gone []birth
	for _, b := range all {
		if state := stat(b.pid, 0); state == "" || strings.Contains("ZXx", state) || stat(b.pid, 19) != b.start {
			gone = append(gone, b)
		}
	}
	return gone
}

// twice requires that alpha never ran twice since the nursery was emptied.
func (n *nursery) twice() error {
	if _, err := os.Stat(filepath.Join(n.dir, "twice")); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errors.New("alpha ran twice at one time"), err)
	}
	return nil
}

// empty ends all guests with a UUID, also those that alpha has not counted, and forgets
// them.
func (n *nursery) empty(uuid string) error {
	if err := n.enough(); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		left := guests(uuid)
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("guests cannot be ended: processes %v", left)
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	for _, name := range []string{"born", "last", "twice"} {
		if err := os.Remove(filepath.Join(n.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// guests returns the processes that are guests with a UUID.
func guests(uuid string) []int {
	var all []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if bytes.HasPrefix(line, []byte("qemu-system-")) && bytes.Contains(line, []byte(uuid)) {
			all = append(all, pid)
		}
	}
	return all
}
