package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/wary"
	"github.com/kollet/kollet/containers"
)

// Adopted is what ran on a node before kollet took it over: generation 0, and which containers are
// its services'. They have none of kollet's labels, so nothing else tells that they belong to this
// node.
type Adopted struct {
	Generation Generation           `json:"generation"` // all of its services have the origin 0
	Containers map[string]Container `json:"containers"` // by service
	Directory  string               `json:"directory"`  // in which the engine has a directory of each container's, named after its id
}

// Container is a container that kollet did not create, as it was.
type Container struct {
	ID      string             `json:"id"`
	Name    string             `json:"name"`
	Restart containers.Restart `json:"restart"`
}

// adoptedRecord is the file of what was adopted.
type adoptedRecord struct {
	Format int `json:"format"`
	Adopted
}

func (s Store) adopted() string { return filepath.Join(s.Dir, "adopted.json") }

// Adopted returns what was adopted; nothing if this node was not taken over. If the record
// has content that this kollet does not know, the error is a *format.UnknownError.
func (s Store) Adopted() (Adopted, error) {
	data, err := wary.ReadFile(s.adopted(), mostRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return Adopted{}, nil
	}
	if err != nil {
		return Adopted{}, fmt.Errorf("read generation 0: %w", err)
	}
	var r adoptedRecord
	if err := format.Decode(s.adopted(), data, Format, &r); err != nil {
		return Adopted{}, fmt.Errorf("read generation 0: %w", err)
	}
	return r.Adopted, nil
}

// SetAdopted records what is adopted.
func (s Store) SetAdopted(a Adopted) error {
	data, err := json.MarshalIndent(adoptedRecord{Format, a}, "", " ")
	if err == nil {
		err = os.MkdirAll(s.Dir, 0o700)
	}
	if err == nil {
		err = durable.WriteFile(s.adopted(), append(data, '\n'), 0o400)
	}
	if err != nil {
		return fmt.Errorf("record generation 0: %w", err)
	}
	return nil
}
