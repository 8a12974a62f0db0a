//go:build !podman

package nodetest

// WithPodman is whether tests that run on each engine also run on Podman, which is not among
// Debian's packages in a version that kollet supports. `make test-engines` builds it.
const WithPodman = false
