package quiesce

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/openstack"
)

// nova has one compute service, or none.
type nova struct {
	service openstack.ComputeService
	silent  error    // of every request
	refuses error    // of a change
	late    error    // after a change
	changes []string // that it made
	onPut   func()
}

func (n *nova) ComputeService(context.Context, string) (openstack.ComputeService, error) {
	if n.silent == nil && n.service.ID == "" {
		return n.service, openstack.ErrUnknownHost
	}
	return n.service, n.silent
}

func (n *nova) put(status, reason string) error {
	if n.onPut != nil {
		n.onPut()
	}
	if err := errors.Join(n.silent, n.refuses); err != nil {
		return err
	}
	n.service.Status, n.service.DisabledReason = status, reason
	n.changes = append(n.changes, status)
	return n.late
}

func (n *nova) Disable(_ context.Context, _, reason string) error { return n.put("disabled", reason) }
func (n *nova) Enable(context.Context, string) error              { return n.put("enabled", "") }

const (
	ours    = "kollet: upgrade to generation 7"
	earlier = "kollet: upgrade to generation 6"
)

// What kollet disabled it enables again, and nothing else, from wherever it was
// interrupted.
func TestDisableAndEnable(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		status, reason string // before
		marked         string // reason of a mark that is there before
		between        func(*nova)
		disableErr     bool
		disabled       bool // by this command
		after          string
		left           bool // a mark
		enableErr      bool
	}{
		"enabled":                      {status: "enabled", disabled: true, after: "enabled"},
		"disabled by an operator":      {status: "disabled", reason: "broken disk", after: "disabled broken disk"},
		"by nova itself":               {status: "disabled", reason: "AUTO: Connection to libvirt lost: 1", after: "disabled AUTO: Connection to libvirt lost: 1"},
		"left by an earlier upgrade":   {status: "disabled", reason: earlier, marked: earlier, after: "enabled"},
		"enabled by an operator since": {status: "enabled", disabled: true, between: func(n *nova) { n.service.Status, n.service.DisabledReason = "enabled", "" }, after: "enabled"},
		"taken over by an operator":    {status: "enabled", disabled: true, between: func(n *nova) { n.service.DisabledReason = "broken disk" }, after: "disabled broken disk"},
		"an old mark":                  {status: "disabled", reason: "broken disk", marked: earlier, after: "disabled broken disk"},
		"an old mark, enabled":         {status: "enabled", marked: earlier, disabled: true, after: "enabled"},
		"no answer in the end":         {status: "enabled", disabled: true, between: func(n *nova) { n.silent = refused }, after: "disabled " + ours, left: true, enableErr: true},
		"enabled, without an answer":   {status: "enabled", disabled: true, between: func(n *nova) { n.late = context.DeadlineExceeded }, after: "enabled"},
		"not listed in the end":        {status: "enabled", disabled: true, between: func(n *nova) { n.service = openstack.ComputeService{} }, after: "", left: true, enableErr: true},
		"not allowed":                  {status: "enabled", disableErr: true, between: func(n *nova) { n.refuses = nil }, after: "enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Store{Dir: t.TempDir(), Version: "test"}
			if c.marked != "" {
				if err := s.mark(Mark{Binary: "nova-compute", Reason: c.marked}); err != nil {
					t.Fatal(err)
				}
			}
			n := &nova{service: openstack.ComputeService{ID: "1", Status: c.status, DisabledReason: c.reason}}
			if c.disableErr {
				n.refuses = refused
			}
			n.onPut = func() { // the mark is there before the service is disabled
				if m, err := s.Marked(); err != nil || m == nil {
					t.Errorf("no mark: %v", err)
				}
			}
			before, err := s.Disable(t.Context(), n, Mark{Binary: "nova-compute", Reason: ours})
			if (err != nil) != c.disableErr || before.Status != c.status || slices.Contains(n.changes, "disabled") != c.disabled {
				t.Fatalf("%v, %+v, %q", err, before, n.changes)
			}
			if c.between != nil {
				c.between(n)
			}
			for range 2 { // it may run again
				if err := s.Enable(t.Context(), n); (err != nil) != c.enableErr {
					t.Errorf("enable: %v", err)
				}
			}
			if got := strings.TrimSpace(n.service.Status + " " + n.service.DisabledReason); got != c.after {
				t.Errorf("it is %q, want %q", got, c.after)
			}
			if m, err := s.Marked(); err != nil || (m != nil) != c.left {
				t.Errorf("mark %+v, %v", m, err)
			}
		})
	}
}

// Nova leaves a service out of its list while its cell's database is away. Afterwards
// the service is enabled.
func TestEnableUnlisted(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	n := &nova{service: openstack.ComputeService{ID: "1", Status: "enabled"}}
	if _, err := s.Disable(t.Context(), n, Mark{Reason: ours}); err != nil {
		t.Fatal(err)
	}
	away := n.service
	n.service = openstack.ComputeService{}
	if err := s.Enable(t.Context(), n); !errors.Is(err, openstack.ErrUnknownHost) {
		t.Error(err)
	}
	n.service = away
	if err := s.Enable(t.Context(), n); err != nil || n.service.Status != "enabled" {
		t.Errorf("%v, %+v", err, n.service)
	}
}

// A request to disable the service that nobody answered may be executed after kollet
// has looked at the service again, and given up the upgrade.
func TestDisabledLate(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	n := &nova{service: openstack.ComputeService{ID: "1", Status: "enabled"}, refuses: errors.New("timeout")}
	if _, err := s.Disable(t.Context(), n, Mark{Binary: "nova-compute", Reason: ours}); err == nil {
		t.Fatal("it was answered")
	}
	n.refuses = nil
	if err := s.Enable(t.Context(), n); err != nil { // by the same command
		t.Fatal(err)
	}
	n.service.Status, n.service.DisabledReason = "disabled", ours
	if err := s.Enable(t.Context(), n); err != nil || n.service.Status != "enabled" {
		t.Errorf("after the next command: %v, %+v", err, n.service)
	}
	if m, err := s.Marked(); err != nil || m != nil {
		t.Errorf("mark %+v, %v", m, err)
	}
}

// Nova has recorded what nova-compute, which may hang, does not answer.
func TestDisabledWithoutAnswer(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	n := &nova{service: openstack.ComputeService{ID: "1", Status: "enabled"}, late: context.DeadlineExceeded}
	if found, err := s.Disable(t.Context(), n, Mark{Binary: "nova-compute", Reason: ours}); err != nil || !found.Enabled() {
		t.Errorf("%+v, %v", found, err)
	}
	if m, err := s.Marked(); err != nil || m == nil || m.Pending {
		t.Errorf("mark %+v, %v", m, err)
	}
}

// The service of another host that kollet disabled is not forgotten.
func TestDisableOnAnotherHost(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	mine := Mark{Host: "compute-1.example.org", Binary: "nova-compute", Reason: ours}
	if err := s.mark(mine); err != nil {
		t.Fatal(err)
	}
	n := &nova{service: openstack.ComputeService{ID: "2", Status: "enabled"}}
	_, err := s.Disable(t.Context(), n, Mark{Host: "compute-1", Binary: "nova-compute", Reason: ours})
	if err == nil || err.Error() != "the nova-compute of host compute-1.example.org, which kollet disabled as well, is not enabled yet" || len(n.changes) > 0 {
		t.Errorf("%v, %q", err, n.changes)
	}
	if m, err := s.Marked(); err != nil || *m != mine {
		t.Errorf("%+v, %v", m, err)
	}
}

// A service that Nova does not list is not disabled.
func TestDisableUnknown(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if _, err := s.Disable(t.Context(), &nova{}, Mark{Reason: ours}); !errors.Is(err, openstack.ErrUnknownHost) {
		t.Error(err)
	}
	if m, err := s.Marked(); m != nil || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestMarkFIFO(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if err := unix.Mkfifo(s.Path(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Marked(); err == nil || !strings.Contains(err.Error(), "is a FIFO, not a regular file; remove the file") {
		t.Errorf("got %v", err)
	}
}

func TestMark(t *testing.T) {
	s := Store{Dir: t.TempDir(), Version: "1.0"}
	for text, unknown := range map[string]bool{
		`{"format":1,"kollet":"1.0","host":"h","binary":"nova-compute","reason":"r","since":"2026-01-02T12:00:00Z"}`: false,
		`{"format":2,"kollet":"9.0","services":[]}`: true,
		`{"format":1,"kollet":"9.0","zone":"a"}`:    true,
		`{"form`:                                    false,
	} {
		if err := os.WriteFile(s.Path(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := s.Marked()
		_, isUnknown := errors.AsType[*format.UnknownError](err)
		if isUnknown != unknown || (m != nil) != (err == nil) {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
		if err := s.Enable(t.Context(), &nova{service: openstack.ComputeService{ID: "1", Status: "disabled", DisabledReason: "r"}}); (err == nil) != (m != nil) {
			t.Errorf("%s: enable: %v", text, err)
		}
	}
}
