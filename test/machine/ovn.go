package machine

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/kollet/kollet/test/machine/certificates"
)

// OVN is the central part of OVN, which only the test uses: the northbound and the
// southbound database, and ovn-northd between them.
type OVN struct {
	Southbound string                  // tcp:HOST:PORT, as chassis connect to it
	Secure     string                  // ssl:HOST:PORT of the same
	Authority  *certificates.Authority // of certificates for Secure

	dir                string
	north, south, flow *daemon
}

// NewOVN starts OVN's databases and ovn-northd, and waits until they answer. They are
// stopped when the test ends. A machine can run one at a time.
func NewOVN(t TB) *OVN {
	t.Helper()
	dir := Dir(t, "ovn")
	o := &OVN{Southbound: "tcp:127.0.0.1:6642", Secure: "ssl:127.0.0.1:6644", dir: dir}
	o.certify(t)
	o.north = o.database(t, "nb")
	o.south = o.database(t, "sb", "--remote=ptcp:6642:127.0.0.1", "--remote=pssl:6644:127.0.0.1",
		"--certificate="+dir+"/cert.pem", "--private-key="+dir+"/key.pem", "--ca-cert="+dir+"/ca.pem")
	o.flow = &daemon{
		t: t, name: "ovn-northd", log: dir + "/northd.log",
		make: func() *exec.Cmd {
			return exec.Command(program(t, "ovn-northd"), "--ovnnb-db=unix:"+dir+"/nb.sock", "--ovnsb-db=unix:"+dir+"/sb.sock",
				"--unixctl="+dir+"/northd.ctl", "--pidfile="+dir+"/northd.pid")
		},
		probe: func(ctx context.Context) error {
			return exec.CommandContext(ctx, program(t, "ovn-appctl"), "-t", dir+"/northd.ctl", "status").Run()
		},
	}
	for _, d := range []*daemon{o.north, o.south, o.flow} {
		t.Cleanup(func() { d.end(syscall.SIGKILL) })
		d.tellOnFailure()
		d.start()
	}
	return o
}

// certify gives the southbound database a certificate.
func (o *OVN) certify(t TB) {
	t.Helper()
	var err error
	if o.Authority, err = certificates.New("ovn"); err != nil {
		t.Fatalf("certify the southbound database: %v", err)
	}
	cert, key, err := o.Authority.Issue("southbound", net.IPv4(127, 0, 0, 1))
	for name, content := range map[string][]byte{"ca.pem": o.Authority.Certificate, "cert.pem": cert, "key.pem": key} {
		err = errors.Join(err, os.WriteFile(o.dir+"/"+name, content, 0o600))
	}
	if err != nil {
		t.Fatalf("certify the southbound database: %v", err)
	}
}

// database returns a server with a new database.
func (o *OVN) database(t TB, name string, more ...string) *daemon {
	t.Helper()
	file := o.dir + "/" + name + ".db"
	if out, err := exec.Command(program(t, "ovsdb-tool"), "create", file, "/usr/share/ovn/ovn-"+name+".ovsschema").CombinedOutput(); err != nil {
		t.Fatalf("create OVN's database: %v\n%s", err, out)
	}
	base := o.dir + "/" + name
	return &daemon{
		t: t, name: "ovsdb-server of " + name, log: base + ".log",
		make: func() *exec.Cmd {
			return exec.Command(program(t, "ovsdb-server"), append(more, file, "--remote=punix:"+base+".sock", "--unixctl="+base+".ctl", "--pidfile="+base+".pid")...)
		},
		probe: func(ctx context.Context) error {
			return exec.CommandContext(ctx, program(t, "ovsdb-client"), "list-dbs", "unix:"+base+".sock").Run()
		},
	}
}

// North runs ovn-nbctl and returns what it prints.
func (o *OVN) North(t TB, args ...string) string {
	t.Helper()
	return o.control(t, "ovn-nbctl", "nb", args)
}

// South runs ovn-sbctl and returns what it prints.
func (o *OVN) South(t TB, args ...string) string {
	t.Helper()
	return o.control(t, "ovn-sbctl", "sb", args)
}

func (o *OVN) control(t TB, name, database string, args []string) string {
	t.Helper()
	args = append([]string{"--timeout=120", "--db=unix:" + o.dir + "/" + database + ".sock"}, args...)
	out, err := exec.Command(program(t, name), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
