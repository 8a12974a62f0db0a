//go:build podman

package docker

// TakePodman lets the suite go on where users are told to choose another engine.
func TakePodman(e *Engine) { e.podmanToo = true }
