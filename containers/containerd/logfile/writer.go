package logfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// longest is the maximum length in bytes of the text in one line of a file, as in
// Docker and Kubernetes.
const longest = 16 << 10

// Writer appends to a log. It is safe for concurrent use.
type Writer struct {
	path  string
	size  int64 // bytes in a file before the next one is created
	files int   // number of files, including the newest

	mutex sync.Mutex
	file  *os.File
	have  int64
	buf   []byte
}

// Open opens the log at path for appending.
func Open(path string, size int64, files int) (*Writer, error) {
	if size < 1 || files < 1 {
		return nil, fmt.Errorf("log %s: %d files of %d bytes: both must be positive", path, files, size)
	}
	w := &Writer{path: path, size: size, files: files}
	return w, w.open()
}

func (w *Writer) open() error {
	file, err := os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	w.file, w.have = file, info.Size()
	return w.endLine(info.Size())
}

// endLine ends an incomplete line that a previous writer left when it died.
func (w *Writer) endLine(size int64) error {
	if size == 0 {
		return nil
	}
	in, err := os.Open(w.path)
	if err != nil {
		return err
	}
	defer in.Close()
	last := make([]byte, 1)
	if _, err := in.ReadAt(last, size-1); err != nil || last[0] == '\n' {
		return err
	}
	n, err := w.file.Write([]byte("\n"))
	w.have += int64(n)
	return err
}

// Copy appends the output of a container on a stream, line by line, until r ends.
// What cannot be written because the disk is full is discarded, so that the container
// is not blocked.
func (w *Writer) Copy(stream string, r io.Reader) error {
	in := bufio.NewReaderSize(r, longest)
	for {
		text, err := in.ReadSlice('\n')
		if err == nil {
			w.write(line{at: time.Now(), stream: stream, text: text[:len(text)-1]})
			continue
		}
		if len(text) > 0 {
			w.write(line{at: time.Now(), stream: stream, partial: true, text: text})
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

func (w *Writer) write(l line) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.buf = l.append(w.buf[:0])
	if w.have > 0 && w.have+int64(len(w.buf)) > w.size {
		w.rotate()
	}
	n, _ := w.file.Write(w.buf) // readers skip an incomplete line
	w.have += int64(n)
}

// rotate creates a new file. If that fails, the old one is still used.
func (w *Writer) rotate() {
	for i := w.files - 1; i > 0; i-- {
		_ = os.Rename(name(w.path, i-1), name(w.path, i))
	}
	if w.files == 1 {
		_ = os.Remove(w.path)
	}
	old := w.file
	if w.open() == nil {
		old.Close()
	}
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }
