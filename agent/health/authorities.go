package health

import (
	"crypto/x509"
	"errors"
	"fmt"
)

// bundles are the files in which distributions keep all certificate authorities
// (crypto/x509 knows the same ones).
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Ubuntu
	"/etc/pki/tls/certs/ca-bundle.crt",   // CentOS, Rocky Linux
	"/etc/ssl/ca-bundle.pem",             // SUSE
}

// bundleLimit is far more than such a file has.
const bundleLimit = 16 << 20

// authorities returns the certificate authorities in a file of the container or,
// without a file, those of the container and of the host: a service may trust an
// authority that only its image has.
func (t Target) authorities(file string) (*x509.CertPool, error) {
	if file != "" {
		pool := x509.NewCertPool()
		return pool, t.addAuthorities(pool, file)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // the host has none
	}
	if t.PID != 0 {
		for _, bundle := range bundles {
			if t.addAuthorities(pool, bundle) == nil {
				break
			}
		}
	}
	return pool, nil
}

func (t Target) addAuthorities(pool *x509.CertPool, file string) error {
	if t.PID == 0 {
		return errors.New("its container does not run, which has the file " + file)
	}
	data, err := t.Host.ReadInside(t.PID, file, bundleLimit)
	if err != nil {
		return fmt.Errorf("read the certificate authorities: %w", err)
	}
	if !pool.AppendCertsFromPEM(data) {
		return fmt.Errorf("read the certificate authorities: %s has no certificate", file)
	}
	return nil
}
