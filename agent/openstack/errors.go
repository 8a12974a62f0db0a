package openstack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// retry decides whether a request is sent again: if the API, or the proxy in
// front of it, may answer a moment later. All requests may be sent twice.
func retry(ctx context.Context, _, _ string, _ *gophercloud.RequestOpts, err error, failures uint) error {
	if failures > retries || !temporary(err) {
		return err
	}
	select {
	case <-ctx.Done():
		return err
	case <-time.After(retryPause):
		return nil
	}
}

func temporary(err error) bool {
	if response, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		switch response.Actual {
		case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network && !errors.Is(err, context.Canceled)
}

// answer is an API's refusal, in few words.
type answer struct {
	text string
	err  error
}

func (a answer) Error() string { return a.text }
func (a answer) Unwrap() error { return a.err }

const giveRights = "give the user of openstack in the node file the rights that docs/openstack.md lists"

// Refused reports whether an API has refused a request, and so did nothing.
func Refused(err error) bool {
	response, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	return ok && response.Actual < http.StatusInternalServerError
}

// longest is how many characters of an API's own words an error shows.
const longest = 200

// explain shortens an error of an API to its status and its reason, and adds what
// to do.
func explain(err error) error {
	if expired, ok := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); ok {
		reason := explain(expired.ErrReauth)
		return answer{"the token has expired; ask Keystone for another: " + reason.Error(), reason}
	}
	response, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if !ok {
		if _, missing := errors.AsType[*gophercloud.ErrEndpointNotFound](err); missing {
			return answer{"the catalogue has none; check openstack.region and openstack.interface", err}
		}
		if wrong := notOpenStack(err); wrong != "" {
			return answer{wrong, err}
		}
		return err
	}
	text := fmt.Sprintf("%d %s", response.Actual, http.StatusText(response.Actual))
	if reason := reasonOf(response.Body); reason != "" {
		text += ": " + reason
	}
	switch response.Actual {
	case http.StatusUnauthorized:
		text += "; check the credentials below openstack in the node file"
	case http.StatusForbidden:
		text += "; " + giveRights
	}
	return answer{text, err}
}

// notOpenStack explains an answer that no API of OpenStack gives, in place of the words of
// Go's packages; "" if it is none.
func notOpenStack(err error) string {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, content := errors.AsType[*json.UnmarshalTypeError](err)
	request, sent := errors.AsType[*url.Error](err)
	switch {
	case syntax, content:
		return "the answer is not that of this API; check auth_url, and the endpoints in the catalogue"
	case sent && errors.Is(err, io.EOF) && strings.HasPrefix(request.URL, "https:"):
		return "the connection was closed without an answer; check whether TLS is used there, as https: says"
	}
	return ""
}

// reasonOf returns the message in an API's JSON answer: {"error": {"message": …}},
// {"forbidden": {"message": …}}, {"NeutronError": {"message": …}}.
func reasonOf(body []byte) string {
	var parts map[string]json.RawMessage
	if json.Unmarshal(body, &parts) != nil {
		return ""
	}
	for _, part := range parts {
		var named struct{ Message string }
		if json.Unmarshal(part, &named) == nil && named.Message != "" {
			words := []rune(strings.Join(strings.Fields(named.Message), " "))
			return string(words[:min(len(words), longest)])
		}
	}
	return ""
}
