//go:build podman

package docker

// AllowPodman lets the suite run where users get an error.
func AllowPodman(e *Engine) { e.allowPodman = true }
