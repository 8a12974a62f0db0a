package containerd_test

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/conformance"
	"github.com/kollet/kollet/containers/containerd"
	"github.com/kollet/kollet/test/machine"
)

// withCerts returns an engine with a directory of registry settings.
func withCerts(t *testing.T, daemon *machine.Containerd, certs string) *containerd.Engine {
	t.Helper()
	engine, err := containerd.New(containerd.Config{
		Address: daemon.Address + "?namespace=" + strings.Trim(machine.CgroupParent(), "/"),
		Root:    machine.Dir(t, "kollet"), Certs: certs,
	})
	must(t, err)
	t.Cleanup(func() { engine.Close() })
	return engine
}

func proxyTo(t *testing.T, addr string) *httputil.ReverseProxy {
	t.Helper()
	target, err := url.Parse("http://" + addr)
	must(t, err)
	return httputil.NewSingleHostReverseProxy(target)
}

func TestRegistryWithPassword(t *testing.T) {
	engine := connect(t, machine.NewContainerd(t))
	registry := machine.NewRegistry(t)
	ref := conformance.Push(t, registry.Addr)
	proxy := proxyTo(t, registry.Addr)
	guard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "kollet" || password != "s3cret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer guard.Close()
	host := guard.Listener.Addr().String()
	ref = strings.Replace(ref, registry.Addr, host, 1)

	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	_, err := engine.Pull(t.Context(), ref, nil)
	wantError(t, err, ref, "docker login "+host)
	write := func(text string) { must(t, os.WriteFile(filepath.Join(config, "config.json"), []byte(text), 0o600)) }
	write(fmt.Sprintf(`{"auths":{%q:{"auth":"a29sbGV0OndyMG5n"}}}`, host)) // kollet:wr0ng
	_, err = engine.Pull(t.Context(), ref, nil)
	wantError(t, err, ref, "docker login "+host)
	write(fmt.Sprintf(`{"auths":{%q:{"auth":"a29sbGV0OnMzY3JldA=="}}}`, host)) // kollet:s3cret
	_, err = engine.Pull(t.Context(), ref, nil)
	must(t, err)
	write(`{"auths":`)
	_, err = engine.Pull(t.Context(), ref, nil)
	wantError(t, err, config, "docker login")
}

// A registry that is not on a loopback address needs TLS, or a setting that allows
// plain HTTP.
func TestRegistrySettings(t *testing.T) {
	daemon := machine.NewContainerd(t)
	registry := machine.NewRegistry(t)
	certs := t.TempDir()
	engine := withCerts(t, daemon, certs)
	path := strings.TrimPrefix(conformance.Push(t, registry.Addr), registry.Addr)
	must(t, exec.Command("ip", "address", "add", "192.0.2.1/32", "dev", "lo").Run())
	serve := func(start func(*httptest.Server)) *httptest.Server {
		listener, err := net.Listen("tcp", "192.0.2.1:0")
		must(t, err)
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: proxyTo(t, registry.Addr)}}
		start(server)
		t.Cleanup(server.Close)
		return server
	}
	write := func(host, name, text string) {
		dir := filepath.Join(certs, host)
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}

	plain := serve((*httptest.Server).Start).Listener.Addr().String()
	_, err := engine.Pull(t.Context(), plain+path, nil)
	wantError(t, err, "plain HTTP", certs, "hosts.toml", plain)
	write(plain, "hosts.toml", fmt.Sprintf("[host.\"http://%s\"]\n", plain))
	_, err = engine.Pull(t.Context(), plain+path, nil)
	must(t, err)

	secured := serve((*httptest.Server).StartTLS)
	secure := secured.Listener.Addr().String()
	_, err = engine.Pull(t.Context(), secure+path, nil)
	wantError(t, err, "does not trust", secure, "ca.crt")
	// The test's certificate is valid for 127.0.0.1 and example.com only, so use
	// the server as a mirror of another name.
	must(t, os.WriteFile("/etc/hosts", []byte("192.0.2.1 example.com\n"), 0o644))
	_, port, err := net.SplitHostPort(secure)
	must(t, err)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw})
	write("nowhere.invalid", "ca.pem", string(ca))
	write("nowhere.invalid", "hosts.toml", fmt.Sprintf("[host.\"https://example.com:%s\"]\n  ca = \"ca.pem\"\n", port))
	pulled, err := engine.Pull(t.Context(), "nowhere.invalid"+path, nil)
	must(t, err)
	if !strings.HasPrefix(pulled.Digest, "nowhere.invalid/") {
		t.Errorf("pulled %s", pulled.Digest)
	}
}

// A pull resumes a partly fetched layer.
func TestPullResumes(t *testing.T) {
	engine := connect(t, machine.NewContainerd(t))
	registry := machine.NewRegistry(t)
	ref := conformance.Push(t, registry.Addr)
	proxy := proxyTo(t, registry.Addr)
	var cut atomic.Bool
	var resumed atomic.Int64
	cut.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get("Range"); from != "" && !strings.HasPrefix(from, "bytes=0-") {
			resumed.Add(1)
		}
		if cut.Load() && strings.Contains(r.URL.Path, "/blobs/") {
			if resumed.Load() > 0 { // the client's own attempt to resume
				panic(http.ErrAbortHandler)
			}
			w = &short{ResponseWriter: w, left: 300 << 10}
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	ref = strings.Replace(ref, registry.Addr, server.Listener.Addr().String(), 1)
	var last containers.Progress
	if _, err := engine.Pull(t.Context(), ref, func(p containers.Progress) { last = p }); err == nil {
		t.Fatal("pulled an image with an incomplete layer")
	}
	cut.Store(false)
	resumed.Store(0)
	_, err := engine.Pull(t.Context(), ref, func(p containers.Progress) { last = p })
	must(t, err)
	if resumed.Load() == 0 || last.Done != last.Total || last.Total == 0 {
		t.Errorf("resumed %d times, %+v", resumed.Load(), last)
	}
}

// short is a response that ends early.
type short struct {
	http.ResponseWriter
	left int
}

func (s *short) Write(p []byte) (int, error) {
	if len(p) > s.left {
		_, _ = s.ResponseWriter.Write(p[:s.left])
		s.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	s.left -= len(p)
	return s.ResponseWriter.Write(p)
}
