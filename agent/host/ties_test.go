package host_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
)

// The kernel's answer is read as the kernel gives it: this process holds both ends.
func TestSocketPeers(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	peers, err := host.Real().SocketPeers(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	a, b := inode(t, client), inode(t, server)
	if peers[a] != b || peers[b] != a {
		t.Errorf("sockets %d and %d: peers are %d and %d", a, b, peers[a], peers[b])
	}
	if peer, ok := peers[inode(t, listener)]; ok {
		t.Errorf("a socket that listens has the peer %d", peer)
	}
	ties, err := host.Real().Ties(os.Getpid(), map[uint64]uint64{a: 7})
	if err != nil || !slices.Contains(ties, fmt.Sprintf("socket:[%d]", a)) || !slices.Contains(ties, "socket:[7]") {
		t.Errorf("ties are %q, %v", ties, err)
	}
	if _, err := host.Real().SocketPeers(1 << 30); !host.Gone(err) {
		t.Errorf("no process: got %v", err)
	}
}

// Sockets are those of the process's network namespace.
func TestSocketPeersOfNamespace(t *testing.T) {
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	peers, err := host.Real().SocketPeers(other.Process.Pid)
	if err != nil || len(peers) > 0 {
		t.Errorf("got %v, %v", peers, err)
	}
	if peers, err = host.Real().SocketPeers(os.Getpid()); err != nil || len(peers) == 0 {
		t.Errorf("own: got %v, %v", peers, err)
	}
}

func inode(t *testing.T, socket any) uint64 {
	t.Helper()
	file, err := socket.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// Two processes that share memory or a pipe have a tie in common; a third has none.
func TestTies(t *testing.T) {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	memory := os.NewFile(uintptr(fd), "memory")
	defer memory.Close()
	if err := memory.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	shared := func() []string {
		ties, err := host.Real().Ties(os.Getpid(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(ties, func(tie string) bool {
			return !strings.HasPrefix(tie, "memory ") || !strings.HasSuffix(tie, fmt.Sprintf(" %d", st.Ino))
		})
	}
	held := shared()
	mapped, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	// The descriptor and the map name it alike.
	if both := shared(); len(held) != 1 || len(both) != 2 || both[0] != held[0] || both[1] != held[0] {
		t.Errorf("held: %q, mapped too: %q", held, both)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	holder := exec.Command("sleep", "1000")
	holder.Stdout = write
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { holder.Process.Kill(); holder.Wait() }()
	write.Close()
	own, err := host.Real().Pipes(os.Getpid(), -1)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := host.Real().Pipes(holder.Process.Pid, 3)
	if err != nil || len(theirs) != 1 || !slices.Contains(own, theirs[0]) {
		t.Errorf("pipes of another process: %q, %v, own %q", theirs, err, own)
	}
	if none, err := host.Real().Pipes(holder.Process.Pid, 1); err != nil || len(none) > 0 {
		t.Errorf("before its output: %q, %v", none, err)
	}
	if ties, err := host.Real().Ties(1<<30, nil); err != nil || len(ties) > 0 {
		t.Errorf("no process: %q, %v", ties, err)
	}
}

func TestLineage(t *testing.T) {
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	pid := cmd.Process.Pid
	start, err := host.Real().StartTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	want := host.Lineage{Parent: os.Getpid(), Session: pid, Start: start}
	if got, err := host.Real().Lineage(pid); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	p := open(t, pid)
	_, _ = io.WriteString(in, "x")
	in.Close()
	if exited, err := p.Exited(long); !exited || err != nil {
		t.Fatalf("it does not exit: %v", err)
	}
	if got, err := host.Real().Lineage(pid); err != nil || !got.Exited {
		t.Errorf("a zombie: %+v, %v", got, err)
	}
	h := host.Host{Proc: t.TempDir()}
	for stat, want := range map[string]string{
		"5 (a) S 1 2 3 34817 5 6 7 8 9 10 11 12 13 14 15 16 17 18 77 20 21": "{Parent:1 Session:3 Terminal:true Start:77 Exited:false}",
		"5 (a) S 1 2 x 34817 5 6 7 8 9 10 11 12 13 14 15 16 17 18 77 20 21": "",
		"5 (a) S 1 2 3 34817 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20 21":  "",
		"5 (a) S 1 2": "",
	} {
		dir := h.ProcessPath(5, "")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := h.Lineage(5)
		if (err != nil) != (want == "") || want != "" && fmt.Sprintf("%+v", got) != want {
			t.Errorf("%s: got %+v, %v, want %s", strconv.Quote(stat), got, err, want)
		}
	}
}
