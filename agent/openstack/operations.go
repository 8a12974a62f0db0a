package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/migrations"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

// Operation is something that Nova is doing with a server, in which this host has
// a part.
type Operation struct {
	Server string    // its UUID
	Name   string    // as its owner calls it
	Task   string    // Nova's word for it: spawning, image_uploading, migrating, …
	Since  time.Time // when Nova last changed the server's record
}

// server is what this package reads of Nova's servers.
type server struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Status    string    `json:"status"`
	Updated   time.Time `json:"updated"`
	TaskState string    `json:"OS-EXT-STS:task_state"`
	Host      string    `json:"OS-EXT-SRV-ATTR:host"`
}

// Operations lists the operations that are under way on this host, of servers in
// all projects, and the migrations that bring a server here or take one away.
func (c *Cloud) Operations(ctx context.Context) ([]Operation, error) {
	pages, err := servers.List(c.compute, servers.ListOpts{AllTenants: true, Host: c.host}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask Nova for the servers of host %s: %w", c.host, explain(err))
	}
	var here []server
	if err := servers.ExtractServersInto(pages, &here); err != nil {
		return nil, fmt.Errorf("ask Nova for the servers of host %s: %w", c.host, err)
	}
	var found []Operation
	for _, s := range here {
		if s.Host != "" && !strings.EqualFold(s.Host, c.host) {
			return nil, fmt.Errorf("ask Nova for the servers of host %s: it lists those of other hosts as well; %s", c.host, giveRights)
		}
		if task := s.task(); task != "" {
			found = append(found, s.operation(task))
		}
	}
	moving, err := c.migrations(ctx, here)
	return append(found, moving...), err
}

// task is what Nova is doing with a server; empty if nothing. A resize that waits
// for its confirmation is none (VERIFY_RESIZE). A server in state ERROR may have one:
// a hard reboot repairs it.
func (s server) task() string {
	if s.TaskState != "" {
		return s.TaskState
	}
	switch s.Status {
	case "BUILD", "MIGRATING", "RESIZE", "REVERT_RESIZE", "REBUILD", "REBOOT", "HARD_REBOOT":
		return s.Status // between two tasks
	}
	return ""
}

func (s server) operation(task string) Operation {
	return Operation{Server: s.ID, Name: s.Name, Task: task, Since: s.Updated}
}

// newest is how many migrations are looked at. Nova lists the newest first, and a
// host can have taken part in thousands.
const newest = 100

// ended are the statuses of migrations on which nobody works. A resize that is
// finished waits for its confirmation (nova: objects/migration.py and
// compute/manager.py).
var ended = []string{"finished", "completed", "done", "confirmed", "reverted", "cancelled", "error", "failed"}

// migrations lists the migrations from and to this host that are in progress, of
// servers other than those that are here.
func (c *Cloud) migrations(ctx context.Context, here []server) ([]Operation, error) {
	limit := newest
	pages, err := migrations.List(c.compute, migrations.ListOpts{Host: &c.host, Limit: &limit}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask Nova for the migrations of host %s: %w", c.host, explain(err))
	}
	all, err := migrations.ExtractMigrations(pages)
	if err != nil {
		return nil, fmt.Errorf("ask Nova for the migrations of host %s: %w", c.host, err)
	}
	var found []Operation
	for _, m := range all {
		evacuated := m.MigrationType == "evacuation" && m.DestCompute != c.host // its new host works on it
		if evacuated || slices.Contains(ended, m.Status) {
			continue
		}
		s, err := c.server(ctx, m.InstanceID)
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			continue // deleted since
		}
		if err != nil {
			return nil, err
		}
		task := s.task()
		if m.Status == "confirming" && s.Status == "VERIFY_RESIZE" {
			task = "confirming resize"
		}
		known := slices.ContainsFunc(here, func(h server) bool { return h.ID == s.ID && h.task() != "" })
		known = known || slices.ContainsFunc(found, func(o Operation) bool { return o.Server == s.ID })
		// Without a task it is a record that a crash left unfinished.
		if task != "" && !known {
			found = append(found, s.operation(task))
		}
	}
	return found, nil
}

func (c *Cloud) server(ctx context.Context, id string) (server, error) {
	var s server
	err := servers.Get(ctx, c.compute, id).ExtractInto(&s)
	if err != nil {
		return s, fmt.Errorf("ask Nova for server %s: %w", id, explain(err))
	}
	return s, nil
}
