package rolling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
)

// patience is how long an operation may take. It only limits how long a lost one hangs.
const patience = 10 * time.Minute

// errNoHost means that the scheduler found no host: nothing was begun.
var errNoHost = errors.New("no valid host")

// poll asks until done returns true or an error.
func poll(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("it did not end")
		case <-time.After(time.Second):
		}
	}
}

// create makes a server with a port, on a host of the scheduler's choice or on the given
// one, and waits until it is active.
func (c *control) create(ctx context.Context, name, host string) (server, error) {
	opts := servers.CreateOpts{Name: name, ImageRef: c.guest, FlavorRef: c.flavor, Networks: []servers.Network{{UUID: c.network}}}
	if host != "" {
		opts.AvailabilityZone = "nova:" + host
	}
	made, err := servers.Create(ctx, c.Compute, opts, nil).Extract()
	if err != nil {
		return server{}, err
	}
	s := server{ID: made.ID}
	err = poll(ctx, func() (bool, error) {
		s, err = c.server(ctx, made.ID)
		if err == nil && s.Status == "ERROR" {
			err = errors.New(s.Fault.Message)
		}
		return s.Status == "ACTIVE" && s.Task == "", err
	})
	return s, err
}

// migrate moves a server to a host of the scheduler's choice, and waits until it is
// there.
func (c *control) migrate(ctx context.Context, id string) error {
	before, err := c.server(ctx, id)
	if err != nil {
		return err
	}
	block := true
	if err := servers.LiveMigrate(ctx, c.Compute, id, servers.LiveMigrateOpts{BlockMigration: &block}).ExtractErr(); err != nil {
		if gophercloud.ResponseCodeIs(err, 400) && strings.Contains(err.Error(), "No valid host") {
			return errNoHost
		}
		return err
	}
	var s server
	err = poll(ctx, func() (bool, error) {
		s, err = c.server(ctx, id)
		if err == nil && s.Status == "ERROR" {
			err = errors.New(s.Fault.Message)
		}
		return s.Task == "" && s.Status != "MIGRATING", err
	})
	if err != nil {
		return err
	}
	if s.Status != "ACTIVE" || s.Host == before.Host {
		return fmt.Errorf("it is %s on %s, as before: %w", s.Status, s.Host, c.reason(ctx, id, "live-migration"))
	}
	return nil
}

// reason finds out why the last action of a kind failed.
func (c *control) reason(ctx context.Context, id, action string) error {
	pages, err := instanceactions.List(c.Compute, id, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := instanceactions.ExtractInstanceActions(pages)
	if err != nil {
		return err
	}
	for _, a := range all { // the newest first
		if a.Action != action {
			continue
		}
		detail, err := instanceactions.Get(ctx, c.Compute, id, a.RequestID).Extract()
		if err != nil {
			return err
		}
		text, refused := a.Message, false
		for _, e := range *detail.Events {
			if e.Result != "Success" {
				lines := strings.Split(strings.TrimSpace(e.Traceback), "\n")
				text += fmt.Sprintf("; %s: %s: %s", e.Event, e.Result, strings.TrimSpace(lines[len(lines)-1]))
				refused = refused || strings.Contains(e.Traceback, "NoValidHost")
			}
		}
		if refused {
			return fmt.Errorf("%w: %s", errNoHost, text)
		}
		return errors.New(text)
	}
	return fmt.Errorf("Nova does not know of a %s", action)
}

// snapshot makes an image of a server, waits until it is complete, and removes it.
func (c *control) snapshot(ctx context.Context, id, name string) error {
	image, err := servers.CreateImage(ctx, c.Compute, id, servers.CreateImageOpts{Name: name}).ExtractImageID()
	if err != nil {
		return err
	}
	err = poll(ctx, func() (bool, error) {
		found, err := images.Get(ctx, c.Image, image).Extract()
		if gone(err) {
			return false, fmt.Errorf("the image is gone: %w", c.reason(ctx, id, "createImage"))
		}
		if err != nil || found.Status != images.ImageStatusActive {
			return false, err
		}
		s, err := c.server(ctx, id)
		return s.Task == "", err
	})
	if err != nil {
		return err
	}
	return images.Delete(ctx, c.Image, image).ExtractErr()
}

// remove deletes a server and waits until it is gone.
func (c *control) remove(ctx context.Context, id string) error {
	if err := servers.Delete(ctx, c.Compute, id).ExtractErr(); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		s, err := c.server(ctx, id)
		if gone(err) {
			return true, nil
		}
		if err == nil && s.Status == "ERROR" {
			err = errors.New(s.Fault.Message)
		}
		return false, err
	})
}
