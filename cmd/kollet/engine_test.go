package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// engine is an engine without containers, to test what the command line itself
// decides, such as exit statuses. It has every image except "absent", which cannot
// be pulled, and "remote", which it has once it was pulled. A pull of "endless" writes kollet's process id to the file pulling,
// and continues until it is cancelled and the file released exists: this lets
// tests send signals while kollet undoes an upgrade.
type engine struct {
	name   string // docker or containerd
	silent bool   // it never answers
}

var _ containers.Engine = engine{}

func (e engine) Info(ctx context.Context) (containers.Info, error) {
	if e.silent {
		<-ctx.Done()
		return containers.Info{}, ctx.Err()
	}
	return containers.Info{Name: e.name, Version: "99", Address: "unix:///none", Root: "/", LiveRestore: true}, nil
}

func (engine) Image(_ context.Context, ref string) (containers.Image, error) {
	_, err := os.Stat("pulled")
	if strings.Contains(ref, "remote") && err != nil || strings.Contains(ref, "absent") || strings.Contains(ref, "endless") {
		return containers.Image{}, fmt.Errorf("image %s: %w", ref, containers.ErrNotFound)
	}
	image := containers.Image{ID: "sha256:" + strings.TrimPrefix(ref, "sha256:"), Entrypoint: []string{"/serve"}}
	if strings.Contains(ref, "kolla") {
		image.Command = []string{"kolla_start"}
	}
	return image, nil
}

func (engine) Pull(ctx context.Context, ref string, progress func(containers.Progress)) (containers.Image, error) {
	for done := int64(0); done <= 100; done += 5 {
		progress(containers.Progress{Done: done << 20, Total: 100 << 20})
	}
	if strings.Contains(ref, "remote") {
		if err := os.WriteFile("pulled", nil, 0o600); err != nil {
			return containers.Image{}, err
		}
		return engine{}.Image(context.Background(), ref)
	}
	if !strings.Contains(ref, "endless") {
		return containers.Image{}, errors.New("the registry has no such image")
	}
	if err := os.WriteFile("pulling.new", fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		return containers.Image{}, err
	}
	if err := os.Rename("pulling.new", "pulling"); err != nil {
		return containers.Image{}, err
	}
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second): // nothing may outlive a test that failed
		return containers.Image{}, errors.New("the pull was never cancelled")
	}
	for range 1000 { // a script that failed never releases it
		if _, err := os.Stat("released"); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return containers.Image{}, ctx.Err()
}

var errNoContainers = fmt.Errorf("container: %w", containers.ErrNotFound)

// Inspect finds what List has found.
func (engine) Inspect(_ context.Context, id string) (containers.Container, error) {
	if os.Getenv("SERVICES_RUN") == "" {
		return containers.Container{}, errNoContainers
	}
	return containers.Container{ID: id, State: containers.StateRunning}, nil
}

// List finds the containers of a generation's services where the variable
// SERVICES_RUN is set, and one of kolla-ansible where KOLLA_CONFIG is its directory with
// config files.
func (engine) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	if dir := os.Getenv("KOLLA_CONFIG"); dir != "" && labels == nil {
		return []containers.Container{{ID: "1", ImageID: "sha256:kolla:1", State: containers.StateRunning, Spec: containers.Spec{
			Name: "nova_compute", Image: "kolla:1", NetworkMode: "host", Env: map[string]string{"KOLLA_SERVICE_NAME": "nova-compute"},
			Mounts: []containers.Mount{{Type: containers.Bind, Source: dir, Target: "/var/lib/kolla/config_files"}},
		}}}, nil
	}
	if os.Getenv("SERVICES_RUN") == "" || labels[node.LabelService] == "" {
		return nil, nil
	}
	return []containers.Container{{ID: labels[node.LabelService], State: containers.StateRunning, Spec: containers.Spec{Labels: labels}}}, nil
}

// Exec tells what it was asked to do, repeats its input and exits with 7.
func (engine) Exec(_ context.Context, id string, cmd containers.Exec) (int, error) {
	fmt.Fprintf(cmd.Stdout, "%s: %q as %q with %v, tty %v\n", id, cmd.Argv, cmd.User, cmd.Env, cmd.TTY)
	if cmd.TTY {
		fmt.Fprintf(cmd.Stdout, "size %v\n", <-cmd.Resize)
		return 7, nil
	}
	if cmd.Stdin != nil {
		if _, err := io.Copy(cmd.Stdout, cmd.Stdin); err != nil {
			return 0, err
		}
	}
	fmt.Fprintln(cmd.Stderr, "to stderr")
	return 7, nil
}

func (engine) Logs(_ context.Context, id string, opts containers.LogOptions, w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: last %d, follow %v, since ever %v\n", id, opts.Tail, opts.Follow, opts.Since.IsZero())
	return err
}

func (engine) Create(context.Context, containers.Spec) (string, error) {
	return "", errors.New("create: this engine has no containers")
}

// Load takes anything; a word of what is in the archive tells otherwise.
func (engine) Load(_ context.Context, archive io.Reader) error {
	data, err := io.ReadAll(archive)
	if err == nil && strings.Contains(string(data), "refuse me") {
		err = errors.New("the engine refuses")
	}
	return err
}

func (engine) RemoveImage(context.Context, string) error         { return nil }
func (engine) Start(context.Context, string) error               { return errNoContainers }
func (engine) Stop(context.Context, string, time.Duration) error { return nil }
func (engine) Update(context.Context, string, string, containers.Restart) error {
	return errNoContainers
}
func (engine) Remove(context.Context, string) error { return nil }
func (engine) Close() error                         { return nil }
