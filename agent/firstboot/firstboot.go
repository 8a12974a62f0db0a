// Package firstboot handles a node's first boot: the mark that a bootstrap has
// started, the record of how it ended, its log, and the systemd unit that resumes
// it after a power loss. All paths are below a root, which is empty on a real node.
package firstboot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/wary"
)

// Paths on a node.
const (
	BegunPath    = "/var/lib/kollet/provision-begun"
	FinishedPath = "/var/lib/kollet/provision-finished"
	LogPath      = "/var/log/kollet/provision.log"
)

// Format is the number of the mark's format. A new field is a new format.
const Format = 1

// mark is the file that marks a bootstrap.
type mark struct {
	Format int `json:"format"`
	Begun
}

// Begun marks a bootstrap that has not ended. It keeps the options, so that the
// bootstrap is resumed with them after a power loss.
type Begun struct {
	Kollet     string            `json:"kollet"` // version that wrote it
	Time       time.Time         `json:"begun"`
	Generation int               `json:"generation"`         // that ran when it started; 0: none
	Images     map[string]string `json:"images,omitempty"`   // service: reference
	Tag        string            `json:"tag,omitempty"`      // of images that name none
	Pull       string            `json:"pull,omitempty"`     // when to ask the registry for images
	Archives   []string          `json:"archives,omitempty"` // image archives
	Wait       time.Duration     `json:"wait_ns"`            // how long to wait for the engine, the registry and archives
}

// Finished records how the last bootstrap ended.
type Finished struct {
	Begun      time.Time         `json:"begun"`
	Time       time.Time         `json:"finished"`
	OK         bool              `json:"ok"`
	Outcome    string            `json:"outcome"`    // committed, nothing to do, discarded, rolled back, failed
	Generation int               `json:"generation"` // that runs now; 0: none
	Error      string            `json:"error,omitempty"`
	Kollet     string            `json:"kollet"`           // version
	Engine     string            `json:"engine,omitempty"` // name and version
	Images     map[string]string `json:"images,omitempty"` // by service: digest, or name and id
}

// Failed is the outcome of a bootstrap that failed before its upgrade started.
const Failed = "failed"

// Begin writes the mark of a bootstrap. It is on stable storage when Begin returns.
func Begin(root string, b Begun) error {
	return write(filepath.Join(root, BegunPath), mark{Format, b})
}

// Interrupted returns the mark of a bootstrap that has not ended; nil if there is
// none. If the mark has content that this kollet does not know, the error is a
// *format.UnknownError.
func Interrupted(root string) (*Begun, error) {
	path := filepath.Join(root, BegunPath)
	data, err := wary.ReadFile(path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if wary.Unfit(err) {
		return nil, fmt.Errorf("read the mark of the interrupted bootstrap: %w; remove it and run `kollet bootstrap`", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the mark of the interrupted bootstrap: %w", err)
	}
	var m mark
	err = format.Decode(path, data, Format, &m)
	if _, ok := errors.AsType[*format.UnknownError](err); ok {
		return nil, fmt.Errorf("read the mark of the interrupted bootstrap: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the mark of the interrupted bootstrap: %s: %w; remove the file and run `kollet bootstrap`", path, err)
	}
	return &m.Begun, nil
}

// End records how a bootstrap ended, then removes its mark. After a power loss
// between the two, the bootstrap is resumed and ends again.
func End(root string, f Finished) error {
	if err := write(filepath.Join(root, FinishedPath), f); err != nil {
		return err
	}
	path := filepath.Join(root, BegunPath)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the bootstrap: %w", err)
	}
	return durable.SyncDir(filepath.Dir(path))
}

func write(path string, value any) error {
	data, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create the state directory: %w", err)
	}
	return durable.WriteFile(path, append(data, '\n'), 0o644)
}

// OpenLog opens the log of bootstraps for appending.
func OpenLog(root string) (*os.File, error) {
	path := filepath.Join(root, LogPath)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return f, nil
}
