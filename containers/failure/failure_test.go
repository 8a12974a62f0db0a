package failure

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/kollet/kollet/containers"
)

var errOwn = errors.New("of the client's own type")

// engine returns an engine whose client has one error type.
func engine(name string) Engine {
	return Engine{
		Name: name, Address: "/run/engine.sock", Puller: name,
		Start: "start it", Space: "it keeps its data", Caps: func() string { return "give it capabilities" },
		AllowHTTP: func(registry string) string { return "allow HTTP to " + registry },
		TrustCA:   func(registry string) string { return "trust the CA of " + registry },
		Types:     map[Kind]func(error) bool{Denied: func(err error) bool { return errors.Is(err, errOwn) }},
	}
}

func TestEngineErrors(t *testing.T) {
	deep := func(err error) error {
		return fmt.Errorf("outer: %w", errors.Join(fmt.Errorf("inner: %w", err), errors.New("second")))
	}
	path := &fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}
	for name, c := range map[string]struct {
		engine string
		err    error
		kind   Kind
		is     []error
		text   string
	}{
		"cancelled":                       {"docker", deep(context.Canceled), Unknown, []error{context.Canceled}, "doing it: outer: inner: context canceled; second"},
		"too late":                        {"docker", context.DeadlineExceeded, Unknown, []error{context.DeadlineExceeded}, "doing it: context deadline exceeded"},
		"unknown":                         {"docker", io.ErrShortWrite, Unknown, []error{io.ErrShortWrite}, "doing it: short write"},
		"not found":                       {"docker", fmt.Errorf("container c: %w", errdefs.ErrNotFound), NotFound, []error{containers.ErrNotFound, errdefs.ErrNotFound}, "doing it: container c: not found"},
		"disk full":                       {"containerd", deep(path), DiskFull, []error{syscall.ENOSPC, path}, "doing it: outer: inner: write /x: no space left on device; second; free disk space where it keeps its data"},
		"disk full, as text":              {"docker", errors.New("Error response from daemon: write /x: no space left on device"), DiskFull, []error{syscall.ENOSPC}, "doing it: write /x: no space left on device; free disk space where it keeps its data"},
		"marked":                          {"containerd", deep(Mark(NameTaken, errOwn)), NameTaken, []error{errOwn}, "doing it: outer: inner: of the client's own type; second; remove that container, or rename it"},
		"rlimit":                          {"containerd", errors.New("OCI runtime create failed: runc create failed: unable to start container process: error during container init: error setting rlimit type 8: operation not permitted"), LimitRefused, nil, "doing it: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error setting rlimit type 8: operation not permitted; allow containerd higher limits (CAP_SYS_RESOURCE, or LimitNOFILE= and LimitMEMLOCK= in its unit), or lower the ulimits of the service"},
		"capabilities":                    {"docker", errors.New("error during container init: unable to apply caps: operation not permitted"), CapsRefused, nil, "doing it: error during container init: unable to apply caps: operation not permitted; give it capabilities"},
		"rlimit, crun":                    {"containerd", errors.New("OCI runtime create failed: setrlimit `RLIMIT_MEMLOCK`: Operation not permitted: unknown"), LimitRefused, nil, "doing it: OCI runtime create failed: setrlimit `RLIMIT_MEMLOCK`: Operation not permitted: unknown; allow containerd higher limits (CAP_SYS_RESOURCE, or LimitNOFILE= and LimitMEMLOCK= in its unit), or lower the ulimits of the service"},
		"capabilities, crun":              {"docker", errors.New("OCI runtime create failed: capset: Operation not permitted: unknown"), CapsRefused, nil, "doing it: OCI runtime create failed: capset: Operation not permitted: unknown; give it capabilities"},
		"another's message":               {"containerd", errors.New("Conflict. The container name is already in use by container 1"), Unknown, nil, "doing it: Conflict. The container name is already in use by container 1"},
		"several lines":                   {"docker", errors.New("one\n\n  two \t three\n"), Unknown, nil, "doing it: one; two three"},
		"registry message outside a pull": {"docker", errors.New("dial tcp: connection refused"), Unknown, nil, "doing it: dial tcp: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, engine(c.engine).Error("doing it", c.err), c.kind, c.is, c.text)
		})
	}
}

func TestPullErrors(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	dns := &net.DNSError{Err: "no such host", Name: "r", IsNotFound: true}
	for name, c := range map[string]struct {
		err  error
		kind Kind
		is   []error
		text string
	}{
		"client's type": {errOwn, Denied, []error{errOwn}, "pull x: registry r denied access: of the client's own type; log in with docker login r, or check the image's name"},
		"refused":       {fmt.Errorf("request: %w", dial), RegistryUnreachable, []error{containers.ErrRegistryUnreachable, syscall.ECONNREFUSED}, "pull x: registry r cannot be reached: request: dial tcp: connect: connection refused; check its name, that it is running, and the network"},
		"no name":       {dns, RegistryUnreachable, []error{containers.ErrRegistryUnreachable, dns}, "pull x: registry r cannot be reached: lookup r: no such host; check its name, that it is running, and the network"},
		"timeout":       {os.ErrDeadlineExceeded, RegistryUnreachable, []error{containers.ErrRegistryUnreachable}, "pull x: registry r cannot be reached: i/o timeout; check its name, that it is running, and the network"},
		"reset later":   {&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, Unknown, []error{syscall.ECONNRESET}, "pull x: read tcp: connection reset by peer"},
		"plain HTTP":    {fmt.Errorf("request: %w", http.ErrSchemeMismatch), PlainHTTP, []error{http.ErrSchemeMismatch}, "pull x: registry r uses plain HTTP, which containerd does not trust; allow HTTP to r"},
		"absent there":  {Mark(NotInRegistry, errdefs.ErrNotFound), NotInRegistry, []error{containers.ErrNotFound}, "pull x: not found in registry r: not found; check the image's name and tag there"},
		"absent here":   {errdefs.ErrNotFound, NotFound, []error{containers.ErrNotFound}, "pull x: not found"},
		"disk full":     {syscall.ENOSPC, DiskFull, []error{syscall.ENOSPC}, "pull x: no space left on device; free disk space where it keeps its data"},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, engine("containerd").PullError(t.Context(), "pull x", "r", c.err), c.kind, c.is, c.text)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := engine("docker").PullError(ctx, "pull x", "r", dial); !errors.Is(err, context.Canceled) || err.Error() != "pull x: context canceled" {
		t.Error(err)
	}
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct {
		engine string
		err    error
		kind   Kind
		text   string
	}{
		{"docker", io.ErrUnexpectedEOF, Damaged, "load: the archive is damaged: unexpected EOF; copy it again"},
		{"containerd", fmt.Errorf("import: %w", tar.ErrHeader), Damaged, "load: the archive is damaged: import: archive/tar: invalid tar header; copy it again"},
		{"docker", errors.New("invalid diffID for layer 0"), Damaged, "load: the archive is damaged: invalid diffID for layer 0; copy it again"},
		{"containerd", errors.New(`wrong diff id calculated on extraction "sha256:12"`), Damaged, `load: the archive is damaged: wrong diff id calculated on extraction "sha256:12"; copy it again`},
		{"docker", errors.New("open /var/lib/docker/tmp/docker-import-12/blobs/json: no such file or directory"), UnknownFormat, "load: this version of docker cannot read the archive's format; write it with docker save, or with skopeo copy to docker-archive"},
	} {
		check(t, engine(c.engine).LoadError(t.Context(), "load", c.err), c.kind, []error{c.err}, c.text)
	}
}

func check(t *testing.T, err error, kind Kind, is []error, text string) {
	t.Helper()
	var explained *Error
	if !errors.As(err, &explained) || explained.Kind != kind || err.Error() != text {
		t.Errorf("%q\n%s, want\n%q\n%s", kindOf(explained), err, kind, text)
	}
	for _, want := range is {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	for _, sentinel := range []error{containers.ErrNotFound, containers.ErrUnreachable, containers.ErrRegistryUnreachable} {
		if errors.Is(err, sentinel) != (meanings[kind].is == sentinel) {
			t.Errorf("%v is %v: %v", err, sentinel, errors.Is(err, sentinel))
		}
	}
}

func kindOf(err *Error) Kind {
	if err == nil {
		return "not explained"
	}
	return err.Kind
}

// An explained error keeps its kind and gets no second remedy.
func TestExplainedOnce(t *testing.T) {
	e := engine("docker")
	inner := e.Error("inspecting image i", errors.New("No such image: i"))
	outer := e.Error("creating container c", errors.Join(inner, errors.New("more")))
	check(t, outer, MissingImage, []error{inner}, "creating container c: inspecting image i: No such image: i; pull it first; more")
	if got := Remedy(fmt.Errorf("stage: %w", outer)); got != "pull it first" {
		t.Errorf("remedy %q", got)
	}
}

func TestRemedyOfHostErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}, "free disk space"},
		{fs.ErrNotExist, ""},
	} {
		if got := Remedy(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestRestrictedCaps(t *testing.T) {
	for _, c := range []struct {
		missing []string
		want    string
	}{
		{nil, "the capability bounding set of docker is restricted, so it cannot start privileged containers: allow all capabilities (CapabilityBoundingSet= in the units of docker and containerd), then restart both"},
		{[]string{"CAP_BPF", "CAP_MKNOD"}, "the capability bounding set of docker is restricted, so it cannot start privileged containers: CAP_BPF, CAP_MKNOD missing on this host; what started the host (a container manager, a sandbox, or CapabilityBoundingSet= of a unit) must allow all capabilities"},
	} {
		if got := RestrictedCaps("docker", c.missing); got != c.want {
			t.Errorf("%q", got)
		}
	}
}

// Every kind has a meaning and is searched for, and so is the kind of every message.
func TestTablesAgree(t *testing.T) {
	searched := map[Kind]bool{}
	for _, kinds := range [][]Kind{engineKinds, pullKinds, loadKinds} {
		for _, k := range kinds {
			searched[k] = true
			if _, ok := meanings[k]; !ok {
				t.Errorf("%s has no meaning", k)
			}
		}
	}
	for k := range meanings {
		if !searched[k] {
			t.Errorf("%s is never found", k)
		}
	}
	for _, m := range messages {
		for _, text := range m.text {
			if !searched[m.kind] || text != strings.ToLower(text) || m.source == "" {
				t.Errorf("message %q of %q", text, m.kind)
			}
		}
	}
}
