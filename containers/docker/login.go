package docker

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config"
	"github.com/docker/docker/api/types/registry"
)

// dockerHub is the key under which docker login keeps the default registry.
const dockerHub = "https://index.docker.io/v1/"

// credentials finds what "docker login" stored for the registry of ref, in the
// form that the engine wants it; empty if there is nothing.
func credentials(ref reference.Named) (string, error) {
	host := reference.Domain(ref)
	key := host
	if host == "docker.io" {
		key = dockerHub
	}
	for _, dir := range configDirs() {
		file, err := config.Load(dir)
		if err != nil {
			return "", fmt.Errorf("reading docker's credentials: %w: correct the file or log in again with docker login", err)
		}
		found, err := file.GetAuthConfig(key)
		if err != nil {
			return "", fmt.Errorf("asking docker's credential helper for %s: %w: check credsStore and credHelpers in %s", host, err, file.Filename)
		}
		auth := registry.AuthConfig{
			Username: found.Username, Password: found.Password, Auth: found.Auth,
			ServerAddress: found.ServerAddress, IdentityToken: found.IdentityToken, RegistryToken: found.RegistryToken,
		}
		if auth.Username != "" || auth.IdentityToken != "" || auth.RegistryToken != "" {
			return registry.EncodeAuthConfig(auth)
		}
	}
	return "", nil
}

// configDirs are where docker login may have left its file. Root's home is
// named because a first boot often runs with no HOME.
func configDirs() []string {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return []string{dir}
	}
	dirs := []string{"/root/.docker"}
	if home, err := os.UserHomeDir(); err == nil && home != "/root" {
		dirs = append([]string{filepath.Join(home, ".docker")}, dirs...)
	}
	return dirs
}
