package docker

import (
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"

	"github.com/kollet/kollet/containers/login"
)

// credentials returns what `docker login` stored for the registry of ref, encoded
// for the engine's API; empty if there is nothing.
func credentials(ref reference.Named) (string, error) {
	found, ok, err := login.For(reference.Domain(ref))
	if err != nil || !ok {
		return "", err
	}
	return registry.EncodeAuthConfig(registry.AuthConfig{
		Username: found.Username, Password: found.Password, Auth: found.Auth,
		ServerAddress: found.ServerAddress, IdentityToken: found.IdentityToken, RegistryToken: found.RegistryToken,
	})
}
