package failure

import (
	"archive/tar"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
)

// marked is an error whose kind is known where it occurs.
type marked struct {
	error
	kind Kind
}

func (m marked) Unwrap() error { return m.error }

// Mark sets the kind of an error that kollet itself detected.
func Mark(kind Kind, err error) error { return marked{err, kind} }

// Is reports whether an error that the engine returned is of a kind.
func (e Engine) Is(kind Kind, err error) bool {
	return err != nil && e.classify([]Kind{kind}, err) == kind
}

// classify returns the kind with which the error was marked, else the first of kinds
// that its type or its text matches.
func (e Engine) classify(kinds []Kind, err error) Kind {
	if m, ok := errors.AsType[marked](err); ok {
		return m.kind
	}
	for _, k := range kinds {
		for _, is := range []func(error) bool{types[k], e.Types[k]} {
			if is != nil && is(err) {
				return k
			}
		}
		if e.matchesText(k, err) {
			return k
		}
	}
	return Unknown
}

// matchesText reports whether the text of an error matches a kind.
func (e Engine) matchesText(k Kind, err error) bool {
	text := strings.ToLower(err.Error())
	for _, m := range messages {
		if m.kind == k && (m.engine == anyEngine || m.engine == e.Name || m.engine == e.Like) && containsAll(text, m.text) {
			return true
		}
	}
	return false
}

func containsAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// types are tests for errors of the standard library and of errdefs, which both
// clients use.
var types = map[Kind]func(error) bool{
	NotFound:            errdefs.IsNotFound,
	DiskFull:            func(err error) bool { return errors.Is(err, syscall.ENOSPC) },
	PlainHTTP:           func(err error) bool { return errors.Is(err, http.ErrSchemeMismatch) },
	Untrusted:           isUntrusted,
	RegistryUnreachable: isNetwork,
	Damaged:             func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrHeader) },
}

func isUntrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert *net.OpError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) ||
		errors.As(err, &invalid) || errors.As(err, &record) ||
		errors.As(err, &alert) && (alert.Op == "remote error" || alert.Op == "local error") // crypto/tls: an alert
}

// isNetwork reports whether a connection could not be established or timed out.
func isNetwork(err error) bool {
	var dns *net.DNSError
	var dial *net.OpError
	var network net.Error
	return errors.As(err, &dns) || errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &network) && network.Timeout()
}
