package containerd

import (
	"context"
	"errors"
	"io"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kollet/kollet/containers/failure"
	"github.com/kollet/kollet/containers/login"
)

// loginError is a problem with the credentials of `docker login`.
type loginError struct{ error }

// resolver returns a resolver for a registry. Mirrors, CAs and client certificates
// are configured in the directory that containerd's other clients use, in
// HOST/hosts.toml or HOST/ca.crt. A registry on a loopback address may use plain
// HTTP.
func (e *Engine) resolver(ctx context.Context, registry string) (remotes.Resolver, error) {
	// Read before anything is fetched, so that an invalid file is reported by
	// itself.
	auth, found, err := login.For(registry)
	if err != nil {
		return nil, loginError{err}
	}
	options := config.HostOptions{
		HostDir: config.HostDirFromRoot(e.certs),
		Credentials: func(host string) (user, secret string, err error) {
			auth, found := auth, found
			if host != registry && (registry != "docker.io" || host != "registry-1.docker.io") { // a mirror
				if auth, found, err = login.For(host); err != nil {
					return "", "", loginError{err}
				}
			}
			if !found {
				return "", "", nil
			}
			if auth.IdentityToken != "" {
				return "", auth.IdentityToken, nil
			}
			if auth.RegistryToken != "" {
				return "", "", errors.New("docker's configuration has a registry token, which containerd's client cannot use; log in with docker login")
			}
			return auth.Username, auth.Password, nil
		},
	}
	return marking{docker.NewResolver(docker.ResolverOptions{Hosts: config.ConfigureHosts(ctx, options)})}, nil
}

// marking is a resolver that marks the registry's errors of type "not found", which
// containerd returns for its own content too.
type marking struct{ remotes.Resolver }

var _ remotes.ResolverWithOptions = marking{}

func (m marking) SetOptions(options ...transfer.ImageResolverOption) {
	if r, ok := m.Resolver.(remotes.ResolverWithOptions); ok {
		r.SetOptions(options...)
	}
}

func (m marking) Resolve(ctx context.Context, ref string) (string, ocispec.Descriptor, error) {
	name, desc, err := m.Resolver.Resolve(ctx, ref)
	return name, desc, markAbsent(err)
}

func (m marking) Fetcher(ctx context.Context, ref string) (remotes.Fetcher, error) {
	fetcher, err := m.Resolver.Fetcher(ctx, ref)
	if err != nil {
		return nil, err
	}
	return remotes.FetcherFunc(func(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
		content, err := fetcher.Fetch(ctx, desc)
		if seekable, ok := content.(io.ReadSeekCloser); ok { // the client seeks to resume a download
			content = markingContent{seekable}
		}
		return content, markAbsent(err)
	}), nil
}

// markingContent is a blob. It is requested from the registry when it is first read.
type markingContent struct{ io.ReadSeekCloser }

func (m markingContent) Read(p []byte) (int, error) {
	n, err := m.ReadSeekCloser.Read(p)
	return n, markAbsent(err)
}

func markAbsent(err error) error {
	if errdefs.IsNotFound(err) {
		return failure.Mark(failure.NotInRegistry, err)
	}
	return err
}

// clientImage returns a record as an image of containerd's client.
func (e *Engine) clientImage(record images.Image) client.Image {
	return client.NewImageWithPlatform(e.client, record, platforms.Default())
}
