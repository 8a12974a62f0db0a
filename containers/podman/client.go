package podman

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/containerd/errdefs"
)

// version is that of libpod's API. Podman serves those of older majors, too.
const version = "v5.0.0"

// client sends requests to libpod's API.
type client struct {
	socket string
	http   *http.Client
}

func newClient(socket string) client {
	return client{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

func (c client) get(ctx context.Context, path string, query url.Values, into any) error {
	return c.do(ctx, http.MethodGet, path, query, nil, into)
}

// do sends a request and decodes the answer into a value; nil if it does not matter.
func (c client) do(ctx context.Context, method, path string, query url.Values, body, into any) error {
	request, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	response, err := c.send(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return refusal(response)
	}
	if into == nil || response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusNotModified {
		_, err := io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(into)
}

func (c client) send(request *http.Request) (*http.Response, error) {
	defer unblock()()
	response, err := c.http.Do(request)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the URL, which says nothing to users
	}
	return response, err
}

func (c client) request(ctx context.Context, method, path string, query url.Values, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	at := url.URL{Scheme: "http", Host: "podman", Path: "/" + version + "/libpod/" + path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, at.String(), content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return request, nil
}

// refusal returns what Podman says about a request that it did not fulfil.
func refusal(response *http.Response) error {
	var answer struct {
		Message string `json:"message"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Message == "" {
		answer.Message = "podman answered " + response.Status
	}
	switch response.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("%s: %w", answer.Message, errdefs.ErrNotFound)
	case http.StatusConflict:
		return fmt.Errorf("%s: %w", answer.Message, errdefs.ErrConflict)
	}
	return errors.New(answer.Message)
}
