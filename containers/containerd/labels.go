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

// Labels of containers, in addition to those of their specs.
const (
	nameLabel    = "org.kollet.name"
	imageLabel   = "org.kollet.image-id" // as containers.Image.ID
	lastRunLabel = "org.kollet.last-run" // JSON of lastRun
)

// Labels of images.
const (
	idLabel   = "org.kollet.id"   // as containers.Image.ID
	sizeLabel = "org.kollet.size" // unpacked, in bytes
)

// internal reports whether a container's label belongs to this package, containerd
// or its tools, and not to the spec.
func internal(key string) bool {
	switch key {
	case nameLabel, imageLabel, lastRunLabel, client.StopSignalLabel:
		return true
	}
	return strings.HasPrefix(key, "containerd.io/")
}

// lastRun is how a container's last run ended.
type lastRun struct {
	Run      time.Time `json:"run"` // identifies the run, see Engine.runOf
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Code     int       `json:"code"`
	Error    string    `json:"error,omitempty"` // of a start that failed
}

func lastRunOf(labels map[string]string) lastRun {
	var l lastRun
	_ = json.Unmarshal([]byte(labels[lastRunLabel]), &l) // without the label, it never ran
	return l
}

// maxError is the maximum length of the error in a label: containerd rejects labels
// of more than 4096 bytes, name and value together.
const maxError = 1024

func (l lastRun) label() string {
	if len(l.Error) > maxError {
		l.Error = l.Error[:maxError]
	}
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // times of this century and strings can always be marshaled
	}
	return string(text)
}

// setLabels sets some labels of a container atomically. It leaves the others as they
// are, because the restart monitor of newer versions writes labels too. A label set
// to "" counts as absent.
func (e *Engine) setLabels(ctx context.Context, id string, labels map[string]string) error {
	var fields []string
	for key := range labels {
		fields = append(fields, "labels."+key)
	}
	_, err := e.client.ContainerService().Update(ctx, ctr.Container{ID: id, Labels: labels}, fields...)
	return err
}

// restartOf returns the restart policy. Its label stays while the monitor is told
// not to touch the container.
func restartOf(labels map[string]string) containers.Restart {
	if policy := labels[restart.PolicyLabel]; policy != "" {
		return containers.Restart(policy)
	}
	return containers.RestartNo
}
