package wary_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/wary"
)

// made returns a directory with something of each kind in it.
func made(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "file"), []byte("0123456789"), 0o600),
		os.Symlink("file", filepath.Join(dir, "link")),
		os.Symlink("/dev/zero", filepath.Join(dir, "device")),
		os.Mkdir(filepath.Join(dir, "dir"), 0o700),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadIsShort(t *testing.T) {
	dir := made(t)
	for limit, want := range map[int64]string{4: "0123", 10: "0123456789", 100: "0123456789"} {
		data, err := wary.Read(unix.AT_FDCWD, filepath.Join(dir, "file"), limit)
		if err != nil || string(data) != want {
			t.Errorf("limit %d: read %q (%v)", limit, data, err)
		}
	}
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := made(t)
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	for name, want := range map[string]string{
		"link":   "link is a symbolic link, not a regular file",
		"device": "device is a symbolic link, not a regular file",
		"dir":    "dir is a directory, not a regular file",
		"fifo":   "fifo is a FIFO, not a regular file",
		"socket": "socket is a socket, not a regular file",
	} {
		_, err := wary.Read(int(at.Fd()), name, 10)
		var kind *wary.KindError
		if !errors.As(err, &kind) || err.Error() != want {
			t.Errorf("%s: got error %v, want %q", name, err, want)
		}
		err = wary.Check(filepath.Join(dir, name), unix.S_IFREG)
		if !errors.As(err, &kind) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", name, err, want)
		}
	}
	if _, err := wary.Read(int(at.Fd()), "absent", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: got error %v", err)
	}
	if err := wary.Check(filepath.Join(dir, "absent"), unix.S_IFREG); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: got error %v", err)
	}
}

func TestReadFile(t *testing.T) {
	dir := made(t)
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 2<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"device": " is a device, not a regular file",
		"dir":    " is a directory, not a regular file",
		"fifo":   " is a FIFO, not a regular file",
		"socket": " is a socket, not a regular file",
		"large":  " is larger than 2 MiB",
	} {
		path := filepath.Join(dir, name)
		if _, err := wary.ReadFile(path, 2<<20); err == nil || err.Error() != path+want || !wary.Unfit(err) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	for _, name := range []string{"file", "link"} {
		if data, err := wary.ReadFile(filepath.Join(dir, name), 10); err != nil || string(data) != "0123456789" {
			t.Errorf("%s: got %q, %v", name, data, err)
		}
	}
	if _, err := wary.ReadFile(filepath.Join(dir, "absent"), 10); !errors.Is(err, fs.ErrNotExist) || wary.Unfit(err) {
		t.Errorf("absent: got error %v", err)
	}
}

func TestADeviceIsNotOpened(t *testing.T) {
	if _, err := wary.Open(unix.AT_FDCWD, "/dev/zero", unix.O_RDONLY, unix.S_IFREG); err == nil || err.Error() != "/dev/zero is a device, not a regular file" {
		t.Errorf("got error %v", err)
	}
}

func TestOpenDoesNotBlock(t *testing.T) {
	fifo := filepath.Join(made(t), "fifo")
	if _, err := wary.Open(unix.AT_FDCWD, fifo, unix.O_WRONLY, unix.S_IFIFO); !errors.Is(err, unix.ENXIO) {
		t.Errorf("without a reader: got error %v", err)
	}
	reader, err := wary.Open(unix.AT_FDCWD, fifo, unix.O_RDONLY, unix.S_IFIFO)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	writer, err := wary.Open(unix.AT_FDCWD, fifo, unix.O_WRONLY, unix.S_IFIFO)
	if err != nil {
		t.Fatal(err)
	}
	writer.Close()
}
