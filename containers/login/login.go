// Package login reads the registry credentials of `docker login`. Both engines use
// it, because containerd has no login of its own.
package login

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/types"
)

// dockerHub is the key of the default registry in Docker's configuration.
const dockerHub = "https://index.docker.io/v1/"

// For returns the credentials of a registry, which is named as in images (docker.io,
// registry:5000).
func For(host string) (auth types.AuthConfig, found bool, err error) {
	key := host
	if host == "docker.io" {
		key = dockerHub
	}
	for _, dir := range configDirs() {
		file, err := config.Load(dir)
		if err != nil {
			return auth, false, fmt.Errorf("reading docker's credentials: %w; correct the file, or log in again with docker login", err)
		}
		auth, err := file.GetAuthConfig(key)
		if err != nil {
			return auth, false, fmt.Errorf("asking docker's credential helper for %s: %w; check credsStore and credHelpers in %s", host, err, file.Filename)
		}
		if auth.Username != "" || auth.IdentityToken != "" || auth.RegistryToken != "" {
			return auth, true, nil
		}
	}
	return auth, false, nil
}

// configDirs returns the directories in which docker login may have stored its
// file. Root's is fixed, because HOME is often not set at first boot.
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
