package machine

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
)

// Registry is an image registry that only the test uses, on the loopback device, without
// TLS and passwords.
type Registry struct {
	Addr string // 127.0.0.1:PORT, as in image names
	Dir  string // storage

	d *daemon
}

// RegistryOption changes a registry.
type RegistryOption func(*Registry)

// RegistryDir stores the images in a directory that is kept.
func RegistryDir(dir string) RegistryOption { return func(r *Registry) { r.Dir = dir } }

// RegistryAddr sets the address. The default is any free port.
func RegistryAddr(addr string) RegistryOption { return func(r *Registry) { r.Addr = addr } }

// NewRegistry starts an image registry that allows deletion, and waits until it answers. It
// is stopped when the test ends.
func NewRegistry(t TB, options ...RegistryOption) *Registry {
	t.Helper()
	program := program(t, "docker-registry")
	dir := Dir(t, "registry")
	r := &Registry{Dir: dir + "/data"}
	for _, option := range options {
		option(r)
	}
	if r.Addr == "" {
		r.Addr = freePort(t)
	}
	config := dir + "/config.yml"
	text := fmt.Sprintf(`version: 0.1
log: {level: info, accesslog: {disabled: false}}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
http: {addr: %q}
`, r.Dir, r.Addr)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatalf("write the registry's configuration: %v", err)
	}
	r.d = &daemon{
		t: t, name: "docker-registry", log: dir + "/registry.log",
		make: func() *exec.Cmd { return exec.Command(program, "serve", config) },
		probe: func(ctx context.Context) error {
			return get(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+r.Addr+"/v2/")
		},
	}
	t.Cleanup(func() { r.d.end(syscall.SIGKILL) })
	r.d.tellOnFailure()
	r.Start()
	return r
}

// Start starts the registry again, at the same address. It does nothing if the registry is
// running.
func (r *Registry) Start() { r.d.t.Helper(); r.d.start() }

// Stop stops the registry as an operator would.
func (r *Registry) Stop() { r.d.t.Helper(); r.d.end(syscall.SIGTERM) }

// Kill kills the registry.
func (r *Registry) Kill() { r.d.t.Helper(); r.d.end(syscall.SIGKILL) }

// Log returns the path of the registry's log, with one line per request.
func (r *Registry) Log() string { return r.d.log }

// freePort returns a free loopback address. It stays free, because the network belongs to
// the machine.
func freePort(t TB) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}
