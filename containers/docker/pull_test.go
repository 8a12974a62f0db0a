package docker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/containers"
)

func TestFollow(t *testing.T) {
	for name, c := range map[string]struct {
		stream, digest, err string
		steps               []containers.Progress
	}{
		"two layers, one present": {
			stream: `{"status":"Pulling from kolla/nova","id":"1"}
{"status":"Already exists","progressDetail":{},"id":"aa"}
{"status":"Pulling fs layer","progressDetail":{},"id":"bb"}
{"status":"Downloading","progressDetail":{"current":10,"total":100},"progress":"[>  ]","id":"bb"}
{"status":"Download complete","progressDetail":{},"id":"bb"}
{"status":"Extracting","progressDetail":{"current":30,"total":100},"id":"bb"}
{"status":"Pull complete","progressDetail":{},"id":"bb"}
{"status":"Digest: sha256:12"}
{"status":"Status: Downloaded newer image"}`,
			digest: "sha256:12",
			steps: []containers.Progress{
				{Status: "0 of 0 layers"}, {Status: "1 of 1 layers"}, {Status: "1 of 2 layers"},
				{Done: 10, Total: 100, Status: "1 of 2 layers"}, {Done: 100, Total: 100, Status: "1 of 2 layers"},
				{Done: 100, Total: 100, Status: "2 of 2 layers"},
			},
		},
		"layer of unknown size, fetched twice": {
			stream: `{"status":"Downloading","progressDetail":{"current":50,"total":-1},"id":"aa"}
{"status":"Retrying in 5 seconds","id":"aa"}
{"status":"Downloading","progressDetail":{"current":20},"id":"aa"}`,
			steps: []containers.Progress{{Done: 50, Total: 50, Status: "0 of 1 layers"}, {Done: 20, Total: 20, Status: "0 of 1 layers"}},
		},
		"a small layer before the size of the large one is known": {
			stream: `{"status":"Pulling fs layer","progressDetail":{},"id":"aa"}
{"status":"Pulling fs layer","progressDetail":{},"id":"bb"}
{"status":"Waiting","progressDetail":{},"id":"bb"}
{"status":"Downloading","progressDetail":{"current":10,"total":10},"id":"aa"}
{"status":"Download complete","progressDetail":{},"id":"aa"}
{"status":"Downloading","progressDetail":{"current":20,"total":90},"id":"bb"}
{"status":"Download complete","progressDetail":{},"id":"bb"}`,
			steps: []containers.Progress{
				{Status: "0 of 1 layers"}, {Status: "0 of 2 layers"},
				{Done: 30, Total: 100, Status: "0 of 2 layers"}, {Done: 100, Total: 100, Status: "0 of 2 layers"},
			},
		},
		"error":       {stream: `{"errorDetail":{"message":"no space left on device"},"error":"no space left on device"}`, err: "no space"},
		"cut off":     {stream: `{"status":"Digest: sha256:12"}` + "\n" + `{"sta`, err: "unexpected EOF"},
		"not JSON":    {stream: `<html>`, err: "invalid character"},
		"no progress": {stream: ``},
	} {
		t.Run(name, func(t *testing.T) {
			var steps []containers.Progress
			digest, err := dockers.follow(t.Context(), strings.NewReader(c.stream), func(p containers.Progress) { steps = append(steps, p) })
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if digest != c.digest {
				t.Errorf("digest %q, want %q", digest, c.digest)
			}
			if c.err == "" && !slices.Equal(steps, c.steps) {
				t.Errorf("steps\n%+v, want\n%+v", steps, c.steps)
			}
		})
	}
}

func FuzzFollow(f *testing.F) {
	f.Add(`{"status":"Downloading","progressDetail":{"current":10,"total":100},"id":"bb"}{"status":"Digest: sha256:12"}`)
	f.Add(`{"status":"Download complete","id":"bb"}{"error":"x"}`)
	f.Fuzz(func(t *testing.T, stream string) {
		_, err := dockers.follow(context.Background(), strings.NewReader(stream), func(p containers.Progress) {
			if p.Done > p.Total && p.Total >= 0 { // huge totals may overflow
				t.Errorf("done %d of %d", p.Done, p.Total)
			}
		})
		if errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
