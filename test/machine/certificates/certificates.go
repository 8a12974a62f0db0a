// Package certificates makes certificate authorities for tests.
package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Authority signs certificates, which are valid for a day.
type Authority struct {
	Certificate []byte // PEM

	template *x509.Certificate
	key      crypto.Signer
	issued   int64
}

// New makes an authority.
func New(name string) (*Authority, error) {
	a := &Authority{template: &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	var err error
	a.Certificate, _, a.key, err = a.sign(a.template)
	return a, err
}

// Issue makes a key, and a certificate of a server and client for it, both in PEM.
func (a *Authority) Issue(name string, address net.IP) (certificate, key []byte, err error) {
	certificate, key, _, err = a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		IPAddresses: []net.IP{address},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, // libvirt requires both
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return certificate, key, err
}

// sign makes a key and a certificate for it. The first one of an authority is its own.
func (a *Authority) sign(template *x509.Certificate) (certificate, key []byte, signer crypto.Signer, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a key: %w", err)
	}
	by := a.key
	if by == nil {
		by = own
	}
	a.issued++
	template.SerialNumber = big.NewInt(a.issued)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.template, own.Public(), by)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("sign a certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), own, nil
}
