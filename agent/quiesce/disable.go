package quiesce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/openstack"
	"github.com/kollet/kollet/agent/wary"
)

// Format is the number of the mark's format. A new field is a new format.
const Format = 1

// Mark says that kollet is about to disable this node's compute service, or has
// done so: it has to be enabled again. It is on stable storage before the service
// is disabled, and is removed after it was enabled, so whenever kollet or the
// machine dies, the next command finds it.
type Mark struct {
	Host   string    `json:"host"`   // of the service: another command may have another --host
	Binary string    `json:"binary"` // of the service
	Reason string    `json:"reason"` // recorded by Nova: a service that is disabled for another reason is left alone
	Since  time.Time `json:"since"`

	// The request is not known to be answered: it may still be executed.
	Pending bool `json:"pending,omitempty"`
}

// record is the mark's file.
type record struct {
	Format int    `json:"format"`
	Kollet string `json:"kollet"` // version that wrote it
	Mark
}

// Store keeps the mark in a node's state directory.
type Store struct {
	Dir     string
	Version string // of kollet
}

// Path is where the mark is.
func (s Store) Path() string { return filepath.Join(s.Dir, "disabled.json") }

// Marked returns the mark; nil if there is none. If the mark has content that this
// kollet does not know, the error is a *format.UnknownError.
func (s Store) Marked() (*Mark, error) {
	data, err := wary.ReadFile(s.Path(), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r record
	if err == nil {
		err = format.Decode(s.Path(), data, Format, &r)
	}
	if _, ok := errors.AsType[*format.UnknownError](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read whether kollet disabled the compute service: %s: %w; remove the file, and enable the service if it is disabled", s.Path(), err)
	}
	return &r.Mark, nil
}

func (s Store) mark(m Mark) error {
	data, err := json.Marshal(record{Format, s.Version, m})
	if err != nil {
		return err
	}
	return durable.WriteFile(s.Path(), append(data, '\n'), 0o600)
}

func (s Store) clear() error {
	if err := os.Remove(s.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record that the compute service is enabled: %w", err)
	}
	return durable.SyncDir(s.Dir)
}

// Service is what disabling a compute service asks of the control plane.
type Service interface {
	ComputeService(ctx context.Context, binary string) (openstack.ComputeService, error)
	Disable(ctx context.Context, id, reason string) error
	Enable(ctx context.Context, id string) error
}

// Disable keeps Nova from placing servers on this node until Enable. A service
// that another user disabled is left as it is. It returns the service as it was.
func (s Store) Disable(ctx context.Context, cloud Service, m Mark) (openstack.ComputeService, error) {
	found, err := cloud.ComputeService(ctx, m.Binary)
	if err != nil {
		return found, err
	}
	if !found.Enabled() {
		return found, nil // with kollet's reason, if an earlier command could not enable it: the mark is still there
	}
	if other, err := s.Marked(); err != nil || other != nil && other.Host != m.Host {
		return found, errors.Join(err, errOther(other))
	}
	m.Pending = true
	if err := s.mark(m); err != nil {
		return found, err
	}
	err = change(ctx, cloud, m.Binary, func(ctx context.Context) error {
		return cloud.Disable(ctx, found.ID, m.Reason)
	}, func(now openstack.ComputeService) bool { return !now.Enabled() && now.DisabledReason == m.Reason })
	if err == nil || openstack.Refused(err) {
		m.Pending = false
		err = errors.Join(err, s.mark(m))
	}
	return found, err
}

// errOther refuses to forget the service of another host.
func errOther(m *Mark) error {
	if m == nil {
		return nil
	}
	return fmt.Errorf("the %s of host %s, which kollet disabled as well, is not enabled yet", m.Binary, m.Host)
}

// Enable enables the compute service again, if kollet disabled it and nobody
// changed that since. It may run again. cloud is asked about the mark's host. The mark
// stays if Nova does not list the service: Nova leaves services out while the database
// of their cell is away.
func (s Store) Enable(ctx context.Context, cloud Service) error {
	m, err := s.Marked()
	if m == nil || err != nil {
		return err
	}
	found, err := cloud.ComputeService(ctx, m.Binary)
	if err != nil {
		return err
	}
	if found.Enabled() && m.Pending {
		m.Pending = false
		return s.mark(*m) // the next command looks again
	}
	if !found.Enabled() && found.DisabledReason == m.Reason {
		err := change(ctx, cloud, m.Binary, func(ctx context.Context) error {
			return cloud.Enable(ctx, found.ID)
		}, openstack.ComputeService.Enabled)
		if err != nil {
			return err
		}
	}
	return s.clear()
}

// patience is how long change waits for Nova's answer; less than its callers wait.
const patience = 15 * time.Second

// change disables or enables a service. Nova records that first, and then waits up to a
// minute for nova-compute, which may have just been started and not listen yet, or hang.
// So what Nova has recorded counts if its answer does not come.
func change(ctx context.Context, cloud Service, binary string, request func(context.Context) error, done func(openstack.ComputeService) bool) error {
	requesting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := request(requesting)
	if err == nil {
		return nil
	}
	if now, asked := cloud.ComputeService(ctx, binary); asked == nil && done(now) {
		return nil
	}
	return err
}
