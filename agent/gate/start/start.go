// Package start holds the program kollet-start, which containers have as their
// entrypoint, and writes it where they can mount it.
package start

import (
	"debug/elf"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kollet/kollet/agent/durable"
)

const name = "kollet-start"

// The pattern also matches kollet-start.md, without which it would not compile
// where the binary has not been built.
//
//go:embed kollet-start*
var built embed.FS

// Write makes path the program. What has mounted another one that was there keeps it.
func Write(path string) error {
	program, err := find(built, os.Executable)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, program, 0o555)
}

// Check returns an error unless path is a whole program that can be executed. It may be that
// of another version, so its content is not compared.
func Check(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable file", path)
	}
	program, err := elf.Open(path)
	if _, malformed := errors.AsType[*elf.FormatError](err); malformed || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s is damaged", path)
	}
	if err != nil {
		return err
	}
	defer program.Close()
	for _, part := range program.Progs {
		if part.Off+part.Filesz > uint64(info.Size()) {
			return fmt.Errorf("%s is damaged", path)
		}
	}
	return nil
}

// find returns the program that was built into this kollet, or else the one
// beside it.
func find(built fs.FS, executable func() (string, error)) ([]byte, error) {
	program, err := fs.ReadFile(built, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return program, err
	}
	self, err := executable()
	if err != nil {
		return nil, fmt.Errorf("look for %s beside kollet: %w", name, err)
	}
	beside := filepath.Join(filepath.Dir(self), name)
	program, err = os.ReadFile(beside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this kollet was built without %s and there is no %s: build kollet with make", name, beside)
	}
	return program, err
}
