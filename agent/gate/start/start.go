// Package start holds the program kollet-start, which containers have as their
// entrypoint, and puts it where they can mount it.
package start

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
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

// Install puts kollet-start into dir and returns its path. The name holds the
// first twelve digits of the content's SHA-256, so a newer kollet-start never
// replaces one that containers have mounted. It may be called again.
func Install(dir string) (path string, err error) {
	program, err := find(built, os.Executable)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(program)
	path = filepath.Join(dir, name+"-"+hex.EncodeToString(sum[:])[:12])
	if intact(path, sum) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	if err := durable.WriteFile(path, program, 0o555); err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	return path, nil
}

// intact tells whether path is what Install would write.
func intact(path string, sum [sha256.Size]byte) bool {
	st, err := os.Lstat(path)
	if err != nil || st.Mode() != 0o555 {
		return false
	}
	there, err := os.ReadFile(path)
	return err == nil && sha256.Sum256(there) == sum
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
