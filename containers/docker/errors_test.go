package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// answering returns an engine whose daemon sends the same response to everything.
func answering(t *testing.T, status int, body string) *Engine {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("API-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	e, err := New("tcp://" + server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func answer(t *testing.T, field, text string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{field: text})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
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
	if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "Error response") {
		t.Errorf("%q has several lines, or the client's prefix", err)
	}
}

// The responses of Docker 20.10 to 28, from its source code and from test runs.
func TestEngineErrors(t *testing.T) {
	for says, c := range map[string]struct {
		status int
		kind   failure.Kind
		is     error
		remedy string
	}{
		"No such container: c":     {404, failure.NotFound, containers.ErrNotFound, ""},
		"No such image: sha256:12": {404, failure.MissingImage, containers.ErrNotFound, "pull it first"},
		"Conflict. The container name \"/c\" is already in use by container \"12\". You have to remove (or rename) that container to be able to reuse that name.":                                                        {409, failure.NameTaken, errdefs.ErrConflict, "remove that container"},
		"invalid mount config for type \"bind\": bind source path does not exist: /x":                                                                                                                                    {400, failure.MissingSource, errdefs.ErrInvalidArgument, "create it"},
		"path /x is mounted on / but it is not a shared mount":                                                                                                                                                           {400, failure.NotShared, nil, "mount --make-rshared"},
		"path /x is mounted on / but it is not a shared or slave mount":                                                                                                                                                  {400, failure.NotShared, nil, "mount --make-rshared"},
		"error gathering device information while adding custom device \"/dev/kvm\": no such file or directory":                                                                                                          {500, failure.MissingDevice, errdefs.ErrInternal, "check that the device exists"},
		"mkdir /var/lib/docker/overlay2/12: no space left on device":                                                                                                                                                     {500, failure.DiskFull, syscall.ENOSPC, "Docker Root Dir"},
		"failed to create task for container: OCI runtime create failed: runc create failed: error setting rlimit type 8: operation not permitted: unknown":                                                              {500, failure.LimitRefused, nil, "CAP_SYS_RESOURCE"},
		"failed to create task for container: OCI runtime create failed: runc create failed: unable to apply caps: operation not permitted: unknown":                                                                     {500, failure.CapsRefused, nil, "capability bounding set of docker"},
		"removal of container c is already in progress":                                                                                                                                                                  {409, failure.BeingRemoved, nil, ""},
		"failed to create shim task: OCI runtime create failed: runc create failed: string SCMP_ACT_X is not a valid action for seccomp: unknown":                                                                        {500, failure.SeccompRefused, nil, "security_opt"},
		"failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error adding seccomp filter rule for syscall mkdir: two checks on same syscall argument: unknown": {500, failure.SeccompRefused, nil, "security_opt"},
		"Decoding seccomp profile failed: json: cannot unmarshal string into Go struct field Syscall.syscalls.errnoRet of type uint":                                                                                     {500, failure.SeccompRefused, nil, "security_opt"},
		"failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error setting cgroup config for procHooks process: failed to write \"-2\": write /sys/fs/cgroup/memory/x/memory.memsw.limit_in_bytes: invalid argument": {500, failure.CgroupRefused, nil, "dimensions"},
		"Requested CPUs are not available - requested 999, available: 0-1": {400, failure.CgroupRefused, nil, "dimensions"},
		"something else": {500, failure.Unknown, errdefs.ErrInternal, ""},
	} {
		_, err := answering(t, c.status, answer(t, "message", says)).Image(t.Context(), "i")
		wantKind(t, err, c.kind, c.is, "looking up image i: ", says, c.remedy)
	}
}

func TestPullErrors(t *testing.T) {
	const ref = "registry:5000/kolla/nova:1"
	for says, c := range map[string]struct {
		status int
		kind   failure.Kind
		is     error
		remedy string
	}{
		"manifest for registry:5000/kolla/nova:1 not found: manifest unknown: manifest unknown":                                {404, failure.NotInRegistry, containers.ErrNotFound, "check the image's name and tag"},
		"repository registry:5000/kolla/nova not found: name unknown: repository name not known to registry":                   {404, failure.NotInRegistry, containers.ErrNotFound, "check the image's name and tag"},
		"no matching manifest for linux/arm64/v8 in the manifest list entries":                                                 {404, failure.NotInRegistry, containers.ErrNotFound, "check the image's name and tag"},
		"pull access denied for kolla/nova, repository does not exist or may require 'docker login': denied":                   {404, failure.Denied, nil, "docker login registry:5000"},
		"Get \"https://registry:5000/v2/kolla/nova/manifests/1\": no basic auth credentials":                                   {500, failure.Denied, nil, "docker login registry:5000"},
		"unauthorized: authentication required":                                                                                {500, failure.Denied, nil, "docker login registry:5000"},
		"Get \"https://registry:5000/v2/\": http: server gave HTTP response to HTTPS client":                                   {500, failure.PlainHTTP, nil, `"insecure-registries": ["registry:5000"]`},
		"Get \"https://registry:5000/v2/\": x509: certificate signed by unknown authority":                                     {500, failure.Untrusted, nil, "/etc/docker/certs.d/registry:5000/ca.crt"},
		"toomanyrequests: You have reached your pull rate limit":                                                               {500, failure.RateLimited, nil, "or wait"},
		"Get \"http://registry:5000/v2/\": dial tcp 10.0.0.9:5000: connect: connection refused":                                {500, failure.RegistryUnreachable, containers.ErrRegistryUnreachable, "the network"},
		"Get \"https://registry:5000/v2/\": dial tcp: lookup registry: no such host":                                           {500, failure.RegistryUnreachable, containers.ErrRegistryUnreachable, "the network"},
		"Get \"https://registry:5000/v2/\": net/http: request canceled while waiting for connection (Client.Timeout exceeded)": {500, failure.RegistryUnreachable, containers.ErrRegistryUnreachable, "the network"},
		"Get \"https://registry:5000/v2/\": net/http: TLS handshake timeout":                                                   {500, failure.RegistryUnreachable, containers.ErrRegistryUnreachable, "the network"},
		"received unexpected HTTP status: 500 Internal Server Error":                                                           {500, failure.RegistryFailed, nil, "look at its log"},
		"received unexpected HTTP status: 503 Service Unavailable":                                                             {500, failure.RegistryFailed, nil, "look at its log"},
		"filesystem layer verification failed for digest sha256:12":                                                            {500, failure.Spoiled, nil, "run the command again"},
		"manifest verification failed for digest sha256:12":                                                                    {500, failure.Spoiled, nil, "run the command again"},
		"error unmarshalling content: invalid character '<' looking for beginning of value":                                    {500, failure.Spoiled, nil, "any proxy before it"},
		"failed to register layer: Error processing tar file(exit status 1): write /usr/lib/x.so: no space left on device":     {500, failure.DiskFull, syscall.ENOSPC, "free disk space"},
	} {
		// As the response itself, and in the stream of a response that had begun.
		for _, engine := range []*Engine{answering(t, c.status, answer(t, "message", says)), answering(t, 200, answer(t, "error", says))} {
			_, err := engine.Pull(t.Context(), ref, nil)
			wantKind(t, err, c.kind, c.is, "pulling image "+ref+": ", c.remedy)
			if c.kind == failure.Denied && errors.Is(err, containers.ErrNotFound) {
				t.Errorf("%v: denied access is not an absent image", err)
			}
		}
	}
}

func TestLoadErrors(t *testing.T) {
	for says, kind := range map[string]failure.Kind{
		"Error processing tar file(exit status 1): unexpected EOF":                        failure.Damaged,
		"invalid diffID for layer 1: expected \"sha256:12\", got \"sha256:34\"":           failure.Damaged,
		"open /var/lib/docker/tmp/docker-import-12/blobs/json: no such file or directory": failure.UnknownFormat,
		"write /var/lib/docker/tmp/docker-import-12/x/layer.tar: no space left on device": failure.DiskFull,
	} {
		err := answering(t, 500, answer(t, "message", says)).Load(t.Context(), bytes.NewReader(nil))
		wantKind(t, err, kind, nil, "loading images: ")
	}
}

func TestUnreachableErrors(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "docker.sock")
	e, err := New(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, err = e.Info(t.Context())
	wantKind(t, err, failure.Unreachable, containers.ErrUnreachable, "asking docker for its version: docker at unix://"+socket+" cannot be reached; start it", "systemctl start docker")
	_, err = e.Pull(t.Context(), "registry:5000/a:1", nil)
	wantKind(t, err, failure.Unreachable, containers.ErrUnreachable, "pulling image registry:5000/a:1: docker at ", "systemctl start docker")

	// A daemon that dies during a request.
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 10))
			c.Close()
		}
	}()
	_, err = e.Image(t.Context(), "i")
	wantKind(t, err, failure.Unreachable, containers.ErrUnreachable, "looking up image i: docker at ")

	// A connection without permission, simulated because tests run as root.
	denied := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	connect := func(context.Context, string, string) (net.Conn, error) { return nil, denied }
	if err := client.WithHTTPClient(&http.Client{Transport: &http.Transport{DialContext: connect}})(e.client); err != nil {
		t.Fatal(err)
	}
	_, errInfo := e.Info(t.Context())
	_, errPull := e.Pull(t.Context(), "registry:5000/a:1", nil)
	for _, err := range []error{errInfo, errPull} {
		wantKind(t, err, failure.Forbidden, containers.ErrUnreachable, "run kollet as root")
		if !errors.Is(err, syscall.EACCES) {
			t.Errorf("%v is not EACCES", err)
		}
	}
}
