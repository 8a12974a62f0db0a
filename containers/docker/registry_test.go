package docker_test

import (
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
	"testing"

	"github.com/kollet/kollet/containers/conformance"
	"github.com/kollet/kollet/test/machine"
)

func TestRegistryWithPassword(t *testing.T) {
	daemon := machine.Dockerd(t)
	registry := machine.NewRegistry(t)
	engine := connect(t, daemon.Socket)
	ref := conformance.Push(t, registry.Addr)
	target, err := url.Parse("http://" + registry.Addr)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
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
	_, err = engine.Pull(t.Context(), ref, nil)
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

func TestRegistryWithoutTLS(t *testing.T) {
	daemon := machine.Dockerd(t)
	// Docker allows plain HTTP only on 127.0.0.0/8.
	must(t, exec.Command("ip", "address", "add", "192.0.2.1/32", "dev", "lo").Run())
	listener, err := net.Listen("tcp", "192.0.2.1:0")
	must(t, err)
	server := &http.Server{Handler: http.NotFoundHandler()}
	go server.Serve(listener)
	defer server.Close()
	host := listener.Addr().String()
	_, err = connect(t, daemon.Socket).Pull(t.Context(), host+"/kolla/nova:1", nil)
	wantError(t, err, "plain HTTP", `"insecure-registries": ["`+host+`"]`)
}
