package containerd

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/runtime/restart"

	"github.com/kollet/kollet/containers"
)

// Labels on containers, beside those of their spec.
const (
	nameLabel  = "org.kollet.name"     // the visible name
	imageLabel = "org.kollet.image-id" // as containers.Image.ID
	lastLabel  = "org.kollet.last"     // JSON of type last
)

// Labels on images.
const (
	idLabel   = "org.kollet.id"   // as containers.Image.ID
	sizeLabel = "org.kollet.size" // unpacked, in bytes
)

// ours tells whether a container's label is this package's, containerd's or
// its tools', and not the spec's.
func ours(key string) bool {
	switch key {
	case nameLabel, imageLabel, lastLabel, client.StopSignalLabel:
		return true
	}
	return strings.HasPrefix(key, "containerd.io/")
}

// last is how a container's last run ended.
type last struct {
	Run      time.Time `json:"run"` // which run this is about, see Engine.runOf
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Code     int       `json:"code"`
	Error    string    `json:"error,omitempty"` // of a start that failed
}

func lastOf(labels map[string]string) last {
	var l last
	_ = json.Unmarshal([]byte(labels[lastLabel]), &l) // without one: it never ran
	return l
}

// maxError bounds the error in a label: containerd takes no label of more than
// 4096 bytes, name and value.
const maxError = 1024

func (l last) label() string {
	if len(l.Error) > maxError {
		l.Error = l.Error[:maxError]
	}
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // times of this century and strings always have a JSON form
	}
	return string(text)
}

// setLabels changes some labels of a container in one step, and no others: the
// restart monitor of newer engines writes labels too. One that is set to ""
// counts as absent.
func (e *Engine) setLabels(ctx context.Context, id string, labels map[string]string) error {
	var fields []string
	for key := range labels {
		fields = append(fields, "labels."+key)
	}
	_, err := e.client.ContainerService().Update(ctx, ctr.Container{ID: id, Labels: labels}, fields...)
	return err
}

// restartOf reads the policy, which is kept also while the monitor is told to
// leave the container alone.
func restartOf(labels map[string]string) containers.Restart {
	if policy := labels[restart.PolicyLabel]; policy != "" {
		return containers.Restart(policy)
	}
	return containers.RestartNo
}
