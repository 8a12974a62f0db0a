package containerd

import (
	"context"
	"errors"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/platforms"

	"github.com/kollet/kollet/containers/login"
)

// loginError is about docker's configuration, which a registry has no part in.
type loginError struct{ error }

// resolver knows the way to registries: mirrors, CAs and client certificates
// are in the directory that containerd's other clients use, HOST/hosts.toml or
// HOST/ca.crt below it. A registry on a loopback address may speak plain HTTP.
func (e *Engine) resolver(ctx context.Context, registry string) (remotes.Resolver, error) {
	// Asked before anything is fetched, so that a broken file is told plainly.
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
				return "", "", errors.New("docker's configuration has a registry token, which containerd's client cannot use: log in with docker login")
			}
			return auth.Username, auth.Password, nil
		},
	}
	return docker.NewResolver(docker.ResolverOptions{Hosts: config.ConfigureHosts(ctx, options)}), nil
}

// clientImage is a record as containerd's client handles it.
func (e *Engine) clientImage(record images.Image) client.Image {
	return client.NewImageWithPlatform(e.client, record, platforms.Default())
}
