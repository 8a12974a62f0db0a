package faults

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/tiny/image"
)

// foreign is an address on which engines trust no registry without a certificate, as they
// do on loopback addresses. RFC 5737 reserves it.
const foreign = "192.0.2.1"

// sickness is what is wrong with a registry.
type sickness struct {
	name        string
	answer      func(w http.ResponseWriter, r *http.Request, s *sickRegistry)
	certificate func(*x509.Certificate) // changes that of the registry
	words       []string                // of the message
	mild        bool                    // the command may succeed
}

var sicknesses = []sickness{
	{name: "answers 500 once", answer: once(http.StatusInternalServerError), words: failing, mild: true},
	{name: "answers 500", answer: says(http.StatusInternalServerError), words: failing},
	{name: "answers 503", answer: says(http.StatusServiceUnavailable), words: failing},
	// With these two, Docker tries again until nothing has arrived for too long.
	{name: "answers 500 for layers", answer: layers(says(http.StatusInternalServerError))},
	{name: "cuts layers off", answer: layers(halfway(abort))},
	{name: "shows a web page", answer: webPage, words: spoiled},
	{name: "does not answer", answer: stall, words: stalling},
	{name: "stops in a layer", answer: layers(halfway(stall)), words: stalling},
	{name: "sends short layers", answer: layers(changed(func(body []byte) []byte { return body[:len(body)-1000] })), words: spoiled},
	{name: "sends corrupt layers", answer: layers(changed(flip)), words: spoiled},
	{name: "moves the tag", answer: moving, mild: true},
	{name: "has an expired certificate", certificate: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }, words: untrusted},
	{name: "has a certificate for another name", certificate: func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("192.0.2.7")} }, words: untrusted},
	{name: "has a certificate of an unknown CA", certificate: func(c *x509.Certificate) { c.Issuer.CommonName = unknownCA }, words: untrusted},
}

var (
	stalling  = []string{"has sent nothing for 1s", "images.stall_timeout"}
	spoiled   = []string{"sent is incomplete or damaged", "run the command again"}
	failing   = []string{"failed", "look at its log"}
	untrusted = []string{"does not trust the certificate", "ca.crt"}
)

const unknownCA = "unknown CA"

// sickRegistry is a registry with a certificate, whose answers can be spoiled.
type sickRegistry struct {
	addr string

	healthy http.Handler
	real    *machine.Registry
	ca      map[string]authority

	mutex    sync.Mutex
	now      sickness
	requests int
	well     chan struct{}
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newSickRegistry starts a registry that both engines trust.
func newSickRegistry(t testing.TB) *sickRegistry {
	t.Helper()
	s := &sickRegistry{real: machine.NewRegistry(t), ca: map[string]authority{"": newCA(t, "test"), unknownCA: newCA(t, unknownCA)}, well: make(chan struct{})}
	target, err := url.Parse("http://" + s.real.Addr)
	check(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		r.Out.Host = s.real.Addr
	}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	s.healthy = proxy
	listener, err := net.Listen("tcp", foreign+":0")
	check(t, err)
	s.addr = listener.Addr().String()
	server := &http.Server{Handler: s, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), ReadHeaderTimeout: time.Minute}
	go func() {
		_ = server.Serve(tls.NewListener(listener, &tls.Config{GetCertificate: s.certificate}))
	}()
	t.Cleanup(func() { server.Close() })
	for _, dir := range []string{"/etc/docker/certs.d", "/etc/containerd/certs.d"} {
		dir = filepath.Join(dir, s.addr)
		check(t, os.MkdirAll(dir, 0o755))
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.ca[""].certificate.Raw})
		check(t, os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o644))
	}
	for _, tag := range []string{"v1", "v2"} {
		s.push(t, tag)
	}
	return s
}

// push puts an image into the registry, and another one to which its tag can move. Its layer
// is large enough to be cut.
func (s *sickRegistry) push(t testing.TB, tag string) {
	t.Helper()
	for _, tag := range []string{tag, tag + "-moved"} {
		image.Image{Tag: tag, Ballast: 1 << 20}.Push(t, s.real.Addr, "test/tiny")
	}
}

func (s *sickRegistry) infect(sick sickness) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.now, s.requests, s.well = sick, 0, make(chan struct{})
}

func (s *sickRegistry) heal() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.now = sickness{}
	close(s.well)
}

// request counts a request of those that a sickness is about.
func (s *sickRegistry) request() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.requests++
	return s.requests
}

func (s *sickRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	answer := s.now.answer
	s.mutex.Unlock()
	w.Header().Set("Connection", "close") // the next command sees the next certificate
	if answer == nil {
		s.healthy.ServeHTTP(w, r)
		return
	}
	answer(w, r, s)
}

type answering = func(w http.ResponseWriter, r *http.Request, s *sickRegistry)

func says(code int) answering {
	return func(w http.ResponseWriter, _ *http.Request, _ *sickRegistry) { http.Error(w, "out of order", code) }
}

func once(code int) answering {
	return func(w http.ResponseWriter, r *http.Request, s *sickRegistry) {
		if s.request() == 1 {
			says(code)(w, r, s)
			return
		}
		s.healthy.ServeHTTP(w, r)
	}
}

// webPage is what a proxy answers on which users have to log in.
func webPage(w http.ResponseWriter, _ *http.Request, _ *sickRegistry) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<html><body>Please log in.</body></html>")
}

func stall(_ http.ResponseWriter, r *http.Request, s *sickRegistry) {
	s.mutex.Lock()
	well := s.well
	s.mutex.Unlock()
	select {
	case <-r.Context().Done():
	case <-well:
	}
	panic(http.ErrAbortHandler)
}

func abort(http.ResponseWriter, *http.Request, *sickRegistry) { panic(http.ErrAbortHandler) }

// layers spoils the answers with layers only.
func layers(spoil answering) answering {
	return func(w http.ResponseWriter, r *http.Request, s *sickRegistry) {
		if strings.Contains(r.URL.Path, "/blobs/") && size(s.healthy, r) > 1<<20 {
			spoil(w, r, s)
			return
		}
		s.healthy.ServeHTTP(w, r)
	}
}

// size is that of a blob.
func size(registry http.Handler, r *http.Request) int {
	head := r.Clone(r.Context())
	head.Method = http.MethodHead
	head.Header.Del("Range")
	w := httptest.NewRecorder()
	registry.ServeHTTP(w, head)
	n, _ := strconv.Atoi(w.Header().Get("Content-Length"))
	return n
}

// halfway sends the first 300 KiB of a blob, and none of it in the tries that follow.
func halfway(then answering) answering {
	return func(w http.ResponseWriter, r *http.Request, s *sickRegistry) {
		if s.request() == 1 {
			whole := httptest.NewRecorder()
			s.healthy.ServeHTTP(whole, r)
			copyHeader(w, whole)
			w.WriteHeader(whole.Code)
			_, _ = w.Write(whole.Body.Bytes()[:300<<10])
			w.(http.Flusher).Flush()
		}
		then(w, r, s)
	}
}

// changed sends another blob.
func changed(change func([]byte) []byte) answering {
	return func(w http.ResponseWriter, r *http.Request, s *sickRegistry) {
		whole := httptest.NewRecorder()
		s.healthy.ServeHTTP(whole, r)
		body := whole.Body.Bytes()
		if r.Method == http.MethodGet {
			body = change(body)
		}
		copyHeader(w, whole)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(whole.Code)
		_, _ = w.Write(body)
	}
}

func flip(body []byte) []byte {
	body[len(body)/2] ^= 1
	return body
}

func copyHeader(w http.ResponseWriter, from *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), from.Header())
}

// moving lets a tag mean another image after the first question about it.
func moving(w http.ResponseWriter, r *http.Request, s *sickRegistry) {
	_, tag, _ := strings.Cut(r.URL.Path, "/manifests/")
	if tag != "" && !strings.HasPrefix(tag, "sha256:") && s.request() > 1 {
		r.URL.Path += "-moved"
	}
	s.healthy.ServeHTTP(w, r)
}

// certificate returns that of the registry with its sickness.
func (s *sickRegistry) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mutex.Lock()
	change := s.now.certificate
	s.mutex.Unlock()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.ParseIP(foreign)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	ca := s.ca[template.Issuer.CommonName]
	raw, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, err
}

func newCA(t testing.TB, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	template.Subject.CommonName = name
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	certificate, err := x509.ParseCertificate(raw)
	check(t, err)
	return authority{certificate, key}
}
