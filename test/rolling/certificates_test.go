package rolling

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/test/machine/certificates"
)

// certify gives each node a certificate and a key, in the files in which libvirt and
// QEMU look for them below /etc/pki.
func certify(t testing.TB, nodes ...*compute) {
	t.Helper()
	ca, err := certificates.New("compute nodes")
	check(t, err)
	for _, n := range nodes {
		cert, key, err := ca.Issue(n.Name, net.ParseIP(n.Address))
		check(t, err)
		for name, content := range map[string][]byte{
			"CA/cacert.pem":          ca.Certificate,
			"libvirt/servercert.pem": cert, "libvirt/private/serverkey.pem": key,
			"libvirt/clientcert.pem": cert, "libvirt/private/clientkey.pem": key,
			"qemu/ca-cert.pem":     ca.Certificate,
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
