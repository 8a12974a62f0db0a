package logfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, size int64, files int, text string) {
	t.Helper()
	w, err := Open(path, size, files)
	must(t, err)
	must(t, w.Copy(Stdout, strings.NewReader(text)))
	must(t, w.Close())
}

func read(t *testing.T, path string, q Query) string {
	t.Helper()
	var out bytes.Buffer
	must(t, Read(t.Context(), path, q, &out))
	return out.String()
}

func TestRoundTrip(t *testing.T) {
	long := strings.Repeat("x", 3*longest+5)
	for name, text := range map[string]string{
		"nothing":          "",
		"lines":            "one\ntwo\n",
		"empty lines":      "\n\na\n\n",
		"no newline":       "one\ntwo",
		"long":             long + "\nnext\n",
		"longest line":     strings.Repeat("y", longest) + "\n" + strings.Repeat("z", longest-1) + "\n",
		"binary":           "\x00\xff \r\n",
		"looks like a log": "2026-11-21T08:00:00Z stdout F x\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			write(t, path, 1<<20, 2, text)
			if got := read(t, path, Query{}); got != text {
				t.Errorf("got %.60q, wrote %.60q", got, text)
			}
		})
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	long := strings.Repeat("x", 2*longest)
	write(t, path, 1<<20, 1, "one\n"+long+"\nthree\n")
	for n, want := range map[int]string{0: "one\n" + long + "\nthree\n", 1: "three\n", 2: long + "\nthree\n", 9: "one\n" + long + "\nthree\n"} {
		if got := read(t, path, Query{Tail: n}); got != want {
			t.Errorf("last %d lines: %d bytes, want %d", n, len(got), len(want))
		}
	}
	if got := read(t, filepath.Join(t.TempDir(), "none"), Query{Tail: 3}); got != "" {
		t.Errorf("a log that does not exist contains %q", got)
	}
}

func TestRotation(t *testing.T) {
	for _, files := range []int{1, 2, 3} {
		path := filepath.Join(t.TempDir(), "log")
		var text strings.Builder
		for i := range 100 {
			fmt.Fprintf(&text, "line %d\n", i)
		}
		write(t, path, 500, files, text.String())
		found, err := filepath.Glob(path + "*")
		must(t, err)
		if len(found) != files {
			t.Errorf("%v, want %d", found, files)
		}
		for _, f := range found {
			if info, err := os.Stat(f); err != nil || info.Size() > 500 || info.Mode().Perm() != 0o600 {
				t.Errorf("%v %v", info, err)
			}
		}
		got := read(t, path, Query{})
		if !strings.HasSuffix(text.String(), got) || !strings.HasSuffix(got, "line 99\n") || len(strings.Split(got, "\n")) < 5*files {
			t.Errorf("%d files: %q", files, got)
		}
	}
}

// A writer that dies leaves an incomplete line; the next writer continues after it.
func TestIncompleteLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, 1<<20, 1, "one\ntwo\n")
	data, err := os.ReadFile(path)
	must(t, err)
	for cut := range len("two\n") + 30 {
		must(t, os.WriteFile(path, data[:len(data)-cut], 0o600))
		write(t, path, 1<<20, 1, "three\n")
		got := read(t, path, Query{})
		if !strings.HasPrefix(got, "one\n") || !strings.HasSuffix(got, "three\n") {
			t.Errorf("cut by %d bytes: %q", cut, got)
		}
	}
}

func TestFollowAcrossRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Open(path, 200, 5)
	must(t, err)
	var out bytes.Buffer
	var want strings.Builder
	round := 0
	// Ended is called each time the reader reaches the end: then more is written,
	// often to new files.
	must(t, Read(t.Context(), path, Query{Ended: func() bool {
		if round++; round > 20 {
			return true
		}
		text := fmt.Sprintf("round %d\nsecond line\n", round)
		want.WriteString(text)
		must(t, w.Copy(Stderr, strings.NewReader(text)))
		return false
	}}, &out))
	if out.String() != want.String() {
		t.Errorf("got %q, want %q", out.String(), want.String())
	}
}

func TestFollowIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := Read(ctx, filepath.Join(t.TempDir(), "log"), Query{Ended: func() bool { cancel(); return false }}, &bytes.Buffer{})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("2026-11-21T08:00:00.123456789Z stdout F some text"))
	f.Add([]byte("2026-11-21T08:00:00Z stderr P "))
	f.Add([]byte("x stdout F "))
	f.Fuzz(func(t *testing.T, in []byte) {
		l, err := parse(in)
		if err != nil {
			return
		}
		out := l.append(nil)
		again, err := parse(out[:len(out)-1])
		if err != nil || !again.at.Equal(l.at) || again.stream != l.stream || again.partial != l.partial || !bytes.Equal(again.text, l.text) {
			t.Errorf("%q became %q: %v", in, out, err)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("2026-11-21T08:00:00Z stdout F a\nrubbish\n2026-11-21T08:00:00Z stderr P b\n"), 1, true)
	f.Fuzz(func(t *testing.T, log []byte, tail int, stamps bool) {
		path := filepath.Join(t.TempDir(), "log")
		must(t, os.WriteFile(path, log, 0o600))
		var out bytes.Buffer
		must(t, Read(t.Context(), path, Query{Tail: max(tail, 0), Since: time.Unix(0, 0), Timestamps: stamps}, &out))
	})
}
