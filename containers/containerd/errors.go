package containerd

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remote "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"

	"github.com/kollet/kollet/containers/failure"
)

// explainer returns the descriptions of containerd in errors and remedies. The
// client pulls images itself, so registries' errors have their types.
func explainer(address, certs string) failure.Engine {
	return failure.Engine{
		Name:    "containerd",
		Address: address,
		Puller:  "kollet",
		Start:   "start it (systemctl start containerd), or give its address with --engine",
		Space:   "containerd keeps its data (usually /var/lib/containerd) and where kollet does",
		Caps: func() string {
			return "containerd may have fewer capabilities than kollet: start both with the same bounding set (CapabilityBoundingSet= in their units)"
		},
		AllowHTTP: func(registry string) string {
			return fmt.Sprintf("allow it in %s/%s/hosts.toml: [host.\"http://%s\"]", certs, registry, registry)
		},
		TrustCA: func(registry string) string { return fmt.Sprintf("install its CA as %s/%s/ca.crt", certs, registry) },
		Types: map[failure.Kind]func(error) bool{
			failure.Unreachable: errdefs.IsUnavailable,
			failure.Denied: func(err error) bool {
				return errors.Is(err, docker.ErrInvalidAuthorization) || hasStatus(err, http.StatusUnauthorized, http.StatusForbidden) ||
					hasCode(err, docker.ErrorCodeUnauthorized, docker.ErrorCodeDenied)
			},
			failure.RateLimited: func(err error) bool {
				return hasStatus(err, http.StatusTooManyRequests) || hasCode(err, docker.ErrorCodeTooManyRequests)
			},
			failure.RegistryFailed: func(err error) bool {
				var answer remote.ErrUnexpectedStatus
				return errors.As(err, &answer) && answer.StatusCode >= http.StatusInternalServerError
			},
			failure.Spoiled: isSpoiled,
			// A blob of the archive is missing, or does not match its digest.
			failure.Damaged: func(err error) bool { return errdefs.IsNotFound(err) || errdefs.IsFailedPrecondition(err) },
		},
	}
}

// isSpoiled reports whether content does not match its size or digest.
func isSpoiled(err error) bool { return errdefs.IsFailedPrecondition(err) }

// hasStatus reports whether a registry responded with one of the HTTP statuses.
func hasStatus(err error, statuses ...int) bool {
	var answer remote.ErrUnexpectedStatus
	return errors.As(err, &answer) && slices.Contains(statuses, answer.StatusCode)
}

// hasCode reports whether a registry responded with one of the error codes.
func hasCode(err error, codes ...docker.ErrorCode) bool {
	var all docker.Errors
	return errors.As(err, &all) && slices.ContainsFunc(all, func(err error) bool {
		coder, ok := err.(docker.ErrorCoder)
		return ok && slices.Contains(codes, coder.ErrorCode())
	})
}

// fail explains an error that came while doing something.
func (e *Engine) fail(doing string, err error) error { return e.errors.Error(doing, err) }
