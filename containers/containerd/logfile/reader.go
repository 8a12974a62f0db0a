package logfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Query selects what Read copies.
type Query struct {
	Tail       int         // number of last lines; 0: all
	Since      time.Time   // zero: from the start
	Timestamps bool        // before each line
	Ended      func() bool // called at the end of the log: reports whether it is complete; nil: do not wait for more
}

// poll is the interval at which a reader looks for more.
const poll = 50 * time.Millisecond

// name returns the name of the nth file, counted from the newest.
func name(path string, n int) string {
	if n == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, n)
}

// Read copies a log to w, from its oldest file to its newest. A log that does not
// exist is empty.
func Read(ctx context.Context, path string, q Query, w io.Writer) error {
	out := &printer{to: w, query: q, keep: q.Tail}
	file, err := oldest(path)
	for err == nil && file != nil {
		file, err = copyFile(ctx, path, file, q, out)
	}
	if err == nil && file == nil && q.Ended != nil {
		err = awaitFirst(ctx, path, q, out)
	}
	return errors.Join(err, out.flush())
}

// awaitFirst waits for the first line of a log.
func awaitFirst(ctx context.Context, path string, q Query, out *printer) error {
	for !out.began {
		ended := q.Ended()
		file, err := oldest(path)
		for err == nil && file != nil {
			file, err = copyFile(ctx, path, file, q, out)
		}
		if err != nil || ended {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(poll):
		return nil
	}
}

// copyFile copies a file and returns the next one, or nil if it is the newest.
func copyFile(ctx context.Context, path string, file *os.File, q Query, out *printer) (*os.File, error) {
	defer file.Close()
	in := bufio.NewReaderSize(file, 64<<10)
	var held []byte // the beginning of a line that is being written
	for {
		text, err := in.ReadBytes('\n')
		held = append(held, text...)
		if err == nil {
			if err := out.add(held[:len(held)-1]); err != nil {
				return nil, err
			}
			held = held[:0]
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return nil, err
		}
		// In this order, so that what was written before a new file was created,
		// or before the log ended, is read first.
		next, err := after(path, file)
		ended := q.Ended == nil || q.Ended()
		if rest, rerr := in.Peek(1); rerr == nil && len(rest) > 0 {
			if next != nil {
				next.Close()
			}
			continue
		}
		if err != nil || next != nil || ended {
			return next, err
		}
		if err := out.flush(); err != nil {
			return nil, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// oldest opens the oldest file; nil if the log does not exist.
func oldest(path string) (*os.File, error) {
	n := 0
	for exists(name(path, n+1)) {
		n++
	}
	for ; n >= 0; n-- {
		file, err := os.Open(name(path, n))
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return nil, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// after opens the file that follows an open one, even if that was renamed; nil if it
// is the newest.
func after(path string, file *os.File) (*os.File, error) {
	own, err := file.Stat()
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		info, err := os.Stat(name(path, n))
		switch {
		case err == nil && os.SameFile(info, own):
			if n == 0 {
				return nil, nil
			}
			return open(name(path, n-1))
		case errors.Is(err, fs.ErrNotExist) && n > 0:
			return oldest(path) // it was removed: all remaining files are newer
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
}

// open opens a file; nil if it does not exist because it is being renamed.
func open(path string) (*os.File, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return file, err
}

// printer converts lines of files to the container's output.
type printer struct {
	to    io.Writer
	query Query
	began bool // a line was read

	keep int      // how many lines are held back until the end is reached; 0: none
	held []string // the last lines
	open string   // stream with an incomplete line
}

// add adds a line of a file, unless it is invalid.
func (p *printer) add(text []byte) error {
	p.began = true
	l, err := parse(text)
	if err != nil || l.at.Before(p.query.Since) {
		return nil
	}
	var out strings.Builder
	continues := p.open == l.stream
	if p.query.Timestamps && !continues {
		out.WriteString(l.at.Format(time.RFC3339Nano) + " ")
	}
	out.Write(l.text)
	if p.open = ""; l.partial {
		p.open = l.stream
	} else {
		out.WriteByte('\n')
	}
	if p.query.Tail == 0 || p.keep == 0 {
		_, err := io.WriteString(p.to, out.String())
		return err
	}
	if continues && len(p.held) > 0 {
		p.held[len(p.held)-1] += out.String()
		return nil
	}
	p.held = append(p.held, out.String())
	if len(p.held) > p.keep {
		p.held = p.held[1:]
	}
	return nil
}

// flush prints what was held back.
func (p *printer) flush() error {
	text := strings.Join(p.held, "")
	p.held, p.keep = nil, 0
	_, err := io.WriteString(p.to, text)
	return err
}
