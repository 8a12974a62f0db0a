package main

import (
	"fmt"
	"os"
	"path"
	"syscall"
	"time"
)

// How the certificate authorities of a site get into the trust store of an image: they are
// in a directory, and a program of the image installs them.
const (
	authorities  = "/var/lib/kolla/share/ca-certificates"
	trustProgram = "/usr/local/bin/kolla_copy_cacerts"
)

const trustLimit = time.Minute

// trustAuthorities has the image install the certificate authorities that it was given.
// kolla_start does the same right before the service, where it would be part of the gap; it
// then finds that nothing has changed.
func (a applier) trustAuthorities(c config) error {
	given := false
	for _, r := range c.copies {
		given = given || path.Clean(r.dest) == authorities
	}
	if !given || !exists(a.path(authorities)) || !exists(a.path(trustProgram)) {
		return nil
	}
	err := runFor(trustLimit, a.path(trustProgram), []string{trustProgram}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 2, 2}, Sys: &syscall.SysProcAttr{},
	})
	if err != nil {
		return fmt.Errorf("%s, which makes the certificates in %s trusted: %w", trustProgram, authorities, err)
	}
	return nil
}
