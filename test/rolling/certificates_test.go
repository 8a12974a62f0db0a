package rolling

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificates gives each node a certificate and a key, in the files in which libvirt and
// QEMU look for them below /etc/pki.
func certificates(t testing.TB, nodes ...*compute) {
	t.Helper()
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "compute nodes"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caPEM, _, caKey := sign(t, ca, ca, nil)
	for i, n := range nodes {
		own := &x509.Certificate{
			Subject:      pkix.Name{CommonName: n.Name},
			SerialNumber: big.NewInt(int64(i + 2)),
			IPAddresses:  []net.IP{net.ParseIP(n.Address)},
			KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, // libvirt requires both
			ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		cert, key, _ := sign(t, own, ca, caKey)
		for name, content := range map[string][]byte{
			"CA/cacert.pem":          caPEM,
			"libvirt/servercert.pem": cert, "libvirt/private/serverkey.pem": key,
			"libvirt/clientcert.pem": cert, "libvirt/private/clientkey.pem": key,
			"qemu/ca-cert.pem":     caPEM,
			"qemu/server-cert.pem": cert, "qemu/server-key.pem": key,
			"qemu/client-cert.pem": cert, "qemu/client-key.pem": key,
		} {
			path := n.Path("pki/" + name)
			check(t, os.MkdirAll(filepath.Dir(path), 0o755))
			check(t, os.WriteFile(path, content, 0o600))
			if filepath.Base(filepath.Dir(path)) == "qemu" {
				check(t, os.Chown(path, novaID, novaID))
			}
		}
	}
}

// novaID is the user and group nova in the images, as which guests run.
const novaID = 42436

// sign makes a key and a certificate for it. Without a parent's key it signs itself.
func sign(t testing.TB, template, parent *x509.Certificate, parentKey crypto.Signer) (cert, key []byte, signer crypto.Signer) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	if parentKey == nil {
		parentKey, template.SerialNumber = own, big.NewInt(1)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, own.Public(), parentKey)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(own)
	check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), own
}
