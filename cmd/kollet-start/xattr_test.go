package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/test/needs"
)

// Access control lists are attributes of the system, and capabilities of security.
func TestPropertiesIncludeAttributes(t *testing.T) {
	needs.Root(t)
	const (
		acl        = "system.posix_acl_access"
		capability = "security.capability"
	)
	attributes := map[string]string{
		"user.note": "manually",
		// Version 2: owner rw, user 42436 rw, group r, mask rw, others none; acl(5).
		acl: "\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x06\x00\xc4\xa5\x00\x00\x04\x00\x04\x00\xff\xff\xff\xff\x10\x00\x06\x00\xff\xff\xff\xff\x20\x00\x00\x00\xff\xff\xff\xff",
		// Revision 2, effective, CAP_NET_ADMIN; capabilities(7).
		capability: "\x01\x00\x00\x02\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	}
	source := filepath.Join(t.TempDir(), "f")
	dest := filepath.Join(t.TempDir(), "f")
	check(t, os.WriteFile(source, []byte("f"), 0o600))
	check(t, os.Chown(source, 7, 8))
	for name, content := range attributes {
		if err := unix.Setxattr(source, name, []byte(content), 0); err != nil {
			t.Skipf("this file system has no %s: %v", name, err)
		}
	}
	check(t, applier{root: "/"}.copy(source, dest, rule{preserve: true}))
	for name, want := range attributes {
		got, err := readAttribute(func(buffer []byte) (int, error) { return unix.Getxattr(dest, name, buffer) })
		if err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
}
