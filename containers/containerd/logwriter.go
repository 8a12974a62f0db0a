package containerd

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/containers/containerd/logfile"
)

// LogCommand is the first argument with which a program is started to write the log
// of a container. The program must then call WriteLog and do nothing else.
const LogCommand = "log-writer"

// flushTime is how long a log writer that gets SIGTERM reads what is still in the
// pipes.
const flushTime = 500 * time.Millisecond

// WriteLog writes the log of a container until its output ends. args are the
// program's arguments, beginning with its path, which is in the container's
// directory. The file descriptors are those of containerd's logging programs: 3 and
// 4 are the container's output and errors; closing 5 reports that the writer is
// ready (containerd, docs/runtime-v2.md, Logging).
func WriteLog(args []string) error {
	if len(args) != 3 || args[1] != LogCommand {
		return fmt.Errorf("expected %s BYTES,FILES; this command is for containerd's shim only", LogCommand)
	}
	size, files, err := parseLimits(args[2])
	if err != nil {
		return err
	}
	dir := filepath.Dir(args[0])
	ready := os.NewFile(5, "ready")
	lock, err := os.OpenFile(filepath.Join(dir, writingFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_RDLCK}); err != nil { // shared: the previous run's writer may still be reading
		return err
	}
	_ = countRun(dir) // a service that is not counted is better than none
	if err := markRun(dir); err != nil {
		return err
	}
	log, err := logfile.Open(filepath.Join(dir, logFile), size, files)
	if err != nil {
		return err
	}
	defer log.Close()
	return copyAll(log, ready)
}

// markRun records the time at which a container's run begins.
func markRun(dir string) error {
	return writeLine(dir, runFile, time.Now().UTC().Format(time.RFC3339Nano))
}

// writeLine replaces a file of a container's directory by one with this line.
func writeLine(dir, file, line string) error {
	name := filepath.Join(dir, file)
	if err := os.WriteFile(name+".new", []byte(line+"\n"), 0o600); err != nil { //nolint:gosec // the shim passes the directory
		return err
	}
	return os.Rename(name+".new", name)
}

// copyAll copies both streams to the log until they end.
func copyAll(log *logfile.Writer, ready *os.File) error {
	pipes := map[string]*os.File{}
	for fd, stream := range map[int]string{3: logfile.Stdout, 4: logfile.Stderr} {
		if err := syscall.SetNonblock(fd, true); err != nil { // for the deadlines below
			return err
		}
		pipes[stream] = os.NewFile(uintptr(fd), stream)
	}
	// The shim sends SIGTERM when the container has exited. A process that it
	// left behind may hold the pipes open indefinitely.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	go func() {
		<-stop
		for _, p := range pipes {
			_ = p.SetReadDeadline(time.Now().Add(flushTime))
		}
	}()
	var copies sync.WaitGroup
	errs := make(chan error, len(pipes))
	for stream, pipe := range pipes {
		copies.Go(func() { errs <- log.Copy(stream, pipe) })
	}
	if err := ready.Close(); err != nil {
		return err
	}
	copies.Wait()
	close(errs)
	var failed error
	for err := range errs {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
