package containerd

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remote "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// unconnected is an engine without a daemon.
func unconnected(t *testing.T) *Engine {
	t.Helper()
	e, err := New(Config{Address: filepath.Join(t.TempDir(), "containerd.sock"), Root: t.TempDir(), Certs: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func wantKind(t *testing.T, err error, kind failure.Kind, is error, words ...string) {
	t.Helper()
	var explained *failure.Error
	if !errors.As(err, &explained) || explained.Kind != kind || is != nil && !errors.Is(err, is) {
		t.Errorf("%v\nis not %q, or does not wrap %v", err, kind, is)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v\ndoes not contain %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q has several lines", err)
	}
}

// The errors of containerd and its shim, as the client returns them.
func TestEngineErrors(t *testing.T) {
	e := unconnected(t)
	answer := func(code codes.Code, text string) error { return errgrpc.ToNative(status.Error(code, text)) }
	full := &fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}
	for _, c := range []struct {
		err   error
		kind  failure.Kind
		is    error
		words string
	}{
		{answer(codes.NotFound, `container "c": not found`), failure.NotFound, containers.ErrNotFound, `container "c": not found`},
		{answer(codes.NotFound, `container "c": not found`), failure.NotFound, errdefs.ErrNotFound, ""},
		{answer(codes.Unavailable, `connection error: desc = "transport: error while dialing: dial unix /run/x.sock: connect: no such file or directory"`), failure.Unreachable, containers.ErrUnreachable, "systemctl start containerd"},
		{answer(codes.Unavailable, `connection error: desc = "transport: error while dialing: dial unix /run/x.sock: connect: permission denied"`), failure.Forbidden, containers.ErrUnreachable, "run kollet as root"},
		{answer(codes.Canceled, "context canceled"), failure.Unknown, context.Canceled, "context canceled"},
		{answer(codes.DeadlineExceeded, "context deadline exceeded"), failure.Unknown, context.DeadlineExceeded, ""},
		{answer(codes.AlreadyExists, "snapshot 12: already exists"), failure.Unknown, errdefs.ErrAlreadyExists, ""},
		{answer(codes.Unknown, "failed to create shim task: OCI runtime create failed: error setting rlimit type 8: operation not permitted"), failure.LimitRefused, nil, "CAP_SYS_RESOURCE"},
		{answer(codes.Unknown, "failed to create shim task: OCI runtime create failed: unable to apply caps: operation not permitted"), failure.CapsRefused, nil, "start both with the same bounding set"},
		{answer(codes.Unknown, "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: unable to apply apparmor profile: apparmor failed to apply profile: write /proc/self/attr/exec: invalid argument: unknown"), failure.AppArmorRefused, nil, "apparmor_parser"},
		{answer(codes.Unknown, "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: unable to apply cgroup configuration: failed to write \"999\": write /sys/fs/cgroup/cpuset/x/cpuset.cpus: numerical result out of range: unknown"), failure.CgroupRefused, nil, "dimensions"},
		{answer(codes.Unknown, "failed to create shim task: OCI runtime create failed: runc create failed: seccomp flags are not yet supported by runc: unknown"), failure.SeccompRefused, nil, "security_opt"},
		{answer(codes.Unknown, "failed to create shim task: failed to start binary process: fork/exec /x/log-writer: no such file or directory"), failure.LogWriterFailed, nil, "start the container with kollet"},
		{answer(codes.Unknown, "write /var/lib/containerd/x: no space left on device"), failure.DiskFull, syscall.ENOSPC, "/var/lib/containerd"},
		{fmt.Errorf("volume v: %w", full), failure.DiskFull, full, "free disk space"},
		{fmt.Errorf("error stating device path: %w", fs.ErrNotExist), failure.MissingDevice, fs.ErrNotExist, "check that the device exists"},
	} {
		wantKind(t, e.fail("doing it", c.err), c.kind, c.is, "doing it: ", c.words)
	}
	_, _, err := toMount(containers.Mount{Type: containers.Bind, Source: "/no/such", Target: "/x"}, e.volume)
	wantKind(t, e.fail("creating container c", err), failure.MissingSource, fs.ErrNotExist, "/no/such", "create it")
}

// registry starts a server that sends the same response to every request, and
// returns its port.
func registry(t *testing.T, start func(*httptest.Server), answer http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	start(server)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// The errors of registries, as the client's resolver returns them.
func TestPullErrors(t *testing.T) {
	reply := func(code int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if header != "" {
				w.Header().Set("WWW-Authenticate", header)
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	plain, secure := (*httptest.Server).Start, (*httptest.Server).StartTLS
	for name, c := range map[string]struct {
		start  func(*httptest.Server)
		answer http.HandlerFunc
		kind   failure.Kind
		is     error
		remedy string
	}{
		"no such tag":     {plain, reply(404, "", ""), failure.NotInRegistry, containers.ErrNotFound, "check the image's name and tag"},
		"password wanted": {plain, reply(401, `Basic realm="r"`, ""), failure.Denied, docker.ErrInvalidAuthorization, "docker login 127.0.0.1:"},
		"no challenge":    {plain, reply(401, "", ""), failure.Denied, nil, "docker login 127.0.0.1:"},
		"forbidden":       {plain, reply(403, "", `{"errors":[{"code":"DENIED","message":"access to the resource is denied"}]}`), failure.Denied, nil, "docker login 127.0.0.1:"},
		"too many pulls":  {plain, reply(429, "", `{"errors":[{"code":"TOOMANYREQUESTS"}]}`), failure.RateLimited, nil, "or wait"},
		"bad gateway":     {plain, reply(502, "", "<html>"), failure.RegistryFailed, nil, "look at its log"},
		"unknown CA":      {secure, reply(200, "", ""), failure.Untrusted, nil, "/registry.invalid/ca.crt"},
		"no TLS":          {plain, reply(200, "", ""), failure.PlainHTTP, http.ErrSchemeMismatch, "/registry.invalid/hosts.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			e := unconnected(t)
			host := "127.0.0.1:" + registry(t, c.start, c.answer)
			if c.kind == failure.Untrusted || c.kind == failure.PlainHTTP { // the client accepts these on loopback addresses
				mirror(t, e.certs, "registry.invalid", "https://"+host)
				host = "registry.invalid"
			}
			err := e.resolve(t.Context(), host)
			wantKind(t, err, c.kind, c.is, "pulling image "+host+"/a:1: ", c.remedy)
			var status remote.ErrUnexpectedStatus
			if c.kind == failure.RegistryFailed && (!errors.As(err, &status) || status.StatusCode != 502) {
				t.Errorf("%v has no status", err)
			}
		})
	}
	e := unconnected(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	wantKind(t, e.resolve(t.Context(), closed.Addr().String()), failure.RegistryUnreachable, syscall.ECONNREFUSED, "cannot be reached")
	wantKind(t, e.resolve(t.Context(), "nowhere.invalid"), failure.RegistryUnreachable, containers.ErrRegistryUnreachable, "nowhere.invalid cannot be reached")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.resolve(ctx, "nowhere.invalid"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// mirror configures the address of a registry.
func mirror(t *testing.T, certs, host, url string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(certs, host), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(certs, host, "hosts.toml"), fmt.Appendf(nil, "server = %q\n", url), 0o644); err != nil {
		t.Fatal(err)
	}
}

// resolve asks a registry for an image, as Pull does.
func (e *Engine) resolve(ctx context.Context, host string) error {
	ref := host + "/a:1"
	resolver, err := e.resolver(quiet(ctx), host)
	if err == nil {
		_, _, err = resolver.Resolve(quiet(ctx), ref)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("failed to resolve reference %q: %w", ref, err) // as the client's Pull does
	return e.pullFailed(ctx, "pulling image "+ref, host, err)
}

// A blob that the registry does not have differs from content that containerd does
// not have.
func TestNotFoundInRegistry(t *testing.T) {
	e := unconnected(t)
	host := "127.0.0.1:" + registry(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) })
	resolver, err := e.resolver(quiet(t.Context()), host)
	if err != nil {
		t.Fatal(err)
	}
	fetcher, err := resolver.Fetcher(quiet(t.Context()), host+"/a:1")
	if err != nil {
		t.Fatal(err)
	}
	content, err := fetcher.Fetch(quiet(t.Context()), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(content)
	wantKind(t, e.pullFailed(t.Context(), "pulling", host, err), failure.NotInRegistry, containers.ErrNotFound, "not found in registry "+host)
	wantKind(t, e.pullFailed(t.Context(), "pulling", host, errdefs.ErrNotFound), failure.NotFound, containers.ErrNotFound)
}

func TestLoadErrors(t *testing.T) {
	e := unconnected(t)
	for _, cause := range []error{
		io.ErrUnexpectedEOF,
		tar.ErrHeader,
		fmt.Errorf("content digest sha256:12: %w", errdefs.ErrNotFound),
		fmt.Errorf("unexpected commit digest sha256:12, expected sha256:34: %w", errdefs.ErrFailedPrecondition),
		errors.New(`wrong diff id calculated on extraction "sha256:12"`),
		errgrpc.ToNative(status.Error(codes.Unknown, "failed to extract layer: unexpected EOF")),
	} {
		err := e.errors.LoadError(t.Context(), "loading images", fmt.Errorf("import: %w", cause))
		wantKind(t, err, failure.Damaged, cause, "loading images: the archive is damaged: import: ", "copy it again")
	}
}
