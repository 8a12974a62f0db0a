package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// elf is a program of nothing but a header and one segment, PT_INTERP.
func elf(interpreter string) string {
	header := make([]byte, 64+56)
	copy(header, "\x7fELF\x02\x01\x01")
	header[32], header[54], header[56] = 64, 56, 1 // where the segments are, their size, how many
	header[64] = 3                                 // PT_INTERP
	header[64+8] = 64 + 56                         // where it is
	header[64+32] = byte(len(interpreter) + 1)     // its size
	return string(header) + interpreter + "\x00"
}

func TestInterpreterOf(t *testing.T) {
	for _, tc := range []struct{ name, content, want, err string }{
		{"script", "#!/bin/sh -e\nexit", "/bin/sh", ""},
		{"script with spaces", "#! \t/usr/bin/env python3\n", "/usr/bin/env", ""},
		{"first line without an end", "#!/bin/sh", "/bin/sh", ""},
		{"no interpreter", "#!\n", "", "names no interpreter"},
		{"text", "exit 0\n", "", "neither a program nor a script"},
		{"empty", "", "", "neither a program nor a script"},
		{"linked program", elf("/lib64/ld.so"), "/lib64/ld.so", ""},
		{"static program", "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 100), "", ""},
		{"cut short", "\x7fELF\x02\x01", "", ""},
		{"another format", "MZ\x00\x01", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "program")
			check(t, os.WriteFile(path, []byte(tc.content), 0o755))
			got, err := interpreterOf(path)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got error %v, want %q", err, tc.err)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestInterpreterOfRealPrograms(t *testing.T) {
	for path, want := range map[string]string{busybox: "", built(t): ""} {
		if got, err := interpreterOf(path); got != want || err != nil {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	self, err := os.Executable()
	check(t, err)
	if interpreter, err := interpreterOf(self); err != nil || interpreter != "" && !exists(interpreter) {
		t.Errorf("this test: got %q, %v", interpreter, err)
	}
}

func FuzzInterpreterOf(f *testing.F) {
	f.Add([]byte(elf("/lib64/ld.so")))
	f.Add([]byte("#!/bin/sh -e\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC)
		check(t, err)
		file := os.NewFile(uintptr(fd), "program")
		defer file.Close()
		_, err = file.Write(data)
		check(t, err)
		interpreter, err := interpreterOf("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil && interpreter != "" {
			t.Errorf("both %q and %v", interpreter, err)
		}
		if interpreter != "" && !strings.Contains(string(data), interpreter) {
			t.Errorf("%q is not in the program", interpreter)
		}
	})
}
