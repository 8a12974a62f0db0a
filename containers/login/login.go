// Package login finds what "docker login" stored for image registries. Both
// engines use it: containerd has no login of its own.
package login

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/types"
)

// dockerHub is the key under which docker login keeps the default registry.
const dockerHub = "https://index.docker.io/v1/"

// For returns what is stored for a registry, named as in images (docker.io,
// registry:5000); found is false if there is nothing.
func For(host string) (auth types.AuthConfig, found bool, err error) {
	key := host
	if host == "docker.io" {
		key = dockerHub
	}
	for _, dir := range configDirs() {
		file, err := config.Load(dir)
		if err != nil {
			return auth, false, fmt.Errorf("reading docker's credentials: %w: correct the file or log in again with docker login", err)
		}
		auth, err := file.GetAuthConfig(key)
		if err != nil {
			return auth, false, fmt.Errorf("asking docker's credential helper for %s: %w: check credsStore and credHelpers in %s", host, err, file.Filename)
		}
		if auth.Username != "" || auth.IdentityToken != "" || auth.RegistryToken != "" {
			return auth, true, nil
		}
	}
	return auth, false, nil
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
