package nodefile

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kollet/kollet/configs/report"
)

// Probe types, as their keys in the node file.
const (
	ProbeExec  = "exec"
	ProbeTCP   = "tcp"
	ProbeUnix  = "unix"
	ProbeHTTP  = "http"
	ProbeAMQP  = "amqp"
	ProbeOVSDB = "ovsdb"
)

var probeTypes = []string{ProbeExec, ProbeTCP, ProbeUnix, ProbeHTTP, ProbeAMQP, ProbeOVSDB}

// Address returns a probe's type, and what it tests, of a script its first line; empty if it has
// no type.
func (p Probe) Address() (kind, address string) {
	switch {
	case len(p.Exec) > 0:
		return ProbeExec, firstLine(strings.Join(p.Exec, " "))
	case p.TCP != "":
		return ProbeTCP, p.TCP
	case p.Unix != "":
		return ProbeUnix, p.Unix
	case p.HTTP != "":
		return ProbeHTTP, p.HTTP
	case p.AMQP != "":
		return ProbeAMQP, p.AMQP
	case p.OVSDB != "":
		return ProbeOVSDB, p.OVSDB
	}
	return "", ""
}

func firstLine(text string) string {
	first, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if more {
		return first + " …"
	}
	return first
}

// InContainer reports whether a probe needs a running container: to run a command
// in it, or to read a file of it, such as its certificate authorities.
func (p Probe) InContainer() bool {
	return len(p.Exec) > 0 || p.Unix != "" || strings.HasPrefix(p.HTTP, "https:") || strings.HasPrefix(p.AMQP, "amqps:") && p.CAFile != ""
}

// Broker is the message broker of an amqp probe.
type Broker struct {
	Host string // without port
	Addr string // HOST:PORT
	TLS  bool
}

// brokerPorts are the ports for AMQP that IANA has registered.
var brokerPorts = map[string]string{"amqp": "5672", "amqps": "5671"}

// ParseBroker parses the value of an amqp probe.
func ParseBroker(text string) (Broker, error) {
	u, err := url.Parse(text)
	if err != nil || brokerPorts[u.Scheme] == "" || u.Hostname() == "" || strings.ContainsAny(u.Hostname(), "[]") || !strings.HasPrefix(text, u.Scheme+":") || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return Broker{}, fmt.Errorf("expected amqp://HOST:PORT or amqps://HOST:PORT, got %q", text)
	}
	return Broker{Host: u.Hostname(), Addr: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), brokerPorts[u.Scheme])), TLS: u.Scheme == "amqps"}, nil
}

// Remote is one server of an ovsdb probe.
type Remote struct {
	Addr string // HOST:PORT
	TLS  bool
}

// ParseRemotes parses the value of an ovsdb probe.
func ParseRemotes(text string) ([]Remote, error) {
	var remotes []Remote
	for part := range strings.SplitSeq(text, ",") {
		kind, addr, _ := strings.Cut(strings.TrimSpace(part), ":")
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host == "" || !validPort(port) || kind != "tcp" && kind != "ssl" {
			return nil, fmt.Errorf("expected tcp:HOST:PORT or ssl:HOST:PORT, or several of them separated by commas, got %q", text)
		}
		remotes = append(remotes, Remote{Addr: addr, TLS: kind == "ssl"})
	}
	return remotes, nil
}

// Check finds values that no probe can have, once their variables are expanded. key
// is the one that is wrong.
func (p Probe) Check() (key string, err error) {
	if _, port, err := net.SplitHostPort(p.TCP); p.TCP != "" && (err != nil || !validPort(port)) {
		return ProbeTCP, fmt.Errorf("expected HOST:PORT, got %q", p.TCP)
	}
	if p.HTTP != "" {
		if u, err := url.Parse(p.HTTP); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return ProbeHTTP, fmt.Errorf("expected a URL such as http://HOST:PORT/PATH, got %q", p.HTTP)
		}
	}
	if p.AMQP != "" {
		if _, err := ParseBroker(p.AMQP); err != nil {
			return ProbeAMQP, err
		}
	}
	if p.OVSDB != "" {
		if _, err := ParseRemotes(p.OVSDB); err != nil {
			return ProbeOVSDB, err
		}
	}
	if p.CAFile != "" && !path.IsAbs(p.CAFile) {
		return "ca_file", fmt.Errorf("expected an absolute path in the container, got %q", p.CAFile)
	}
	return "", nil
}

// validPort accepts the number of a port, or the name of one in the node's
// /etc/services.
func validPort(text string) bool {
	number, err := strconv.Atoi(text)
	return text != "" && (err != nil || number > 0 && number <= math.MaxUint16)
}

// validate checks what can be checked before variables are expanded.
func (p Probe) validate(problems *report.Problems) {
	kinds := 0
	for _, set := range []bool{len(p.Exec) > 0, p.TCP != "", p.Unix != "", p.HTTP != "", p.AMQP != "", p.OVSDB != ""} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		last := len(probeTypes) - 1
		problems.Addf(p.Place, p.Key, "expected exactly one of %s and %s", strings.Join(probeTypes[:last], ", "), probeTypes[last])
	}
	if kind, _ := p.Address(); p.CAFile != "" && !slices.Contains([]string{ProbeHTTP, ProbeAMQP}, kind) {
		problems.Addf(p.Place, p.Key+".ca_file", "only probes of the types http and amqp use TLS")
	}
	if p.Interval == 0 || p.StartPeriod == 0 || p.Timeout == 0 {
		problems.Addf(p.Place, p.Key, "interval, start_period and timeout must be more than zero; omit them for the defaults")
	}
}
