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

// Registry is an image registry of the test's own, on the loopback device,
// without TLS and passwords.
type Registry struct {
	Addr string // 127.0.0.1:PORT, as in image names
	Dir  string // storage

	d *daemon
}

// RegistryOption changes a registry.
type RegistryOption func(*Registry)

// RegistryDir keeps the images in a directory that outlives the registry.
func RegistryDir(dir string) RegistryOption { return func(r *Registry) { r.Dir = dir } }

// RegistryAddr chooses the address; by default the port is any free one.
func RegistryAddr(addr string) RegistryOption { return func(r *Registry) { r.Addr = addr } }

// NewRegistry starts an image registry, with deletion allowed, and waits until
// it answers. It ends with the test.
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

// Start starts the registry again, at the same address. It does nothing if the
// registry runs.
func (r *Registry) Start() { r.d.t.Helper(); r.d.start() }

// Stop ends the registry as an operator does.
func (r *Registry) Stop() { r.d.t.Helper(); r.d.end(syscall.SIGTERM) }

// Kill ends the registry at once.
func (r *Registry) Kill() { r.d.t.Helper(); r.d.end(syscall.SIGKILL) }

// Log is the path of the registry's log: one line a request.
func (r *Registry) Log() string { return r.d.log }

// freePort finds a loopback address that nobody listens on. Nobody else takes
// it meanwhile: the network is the machine's own.
func freePort(t TB) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}
