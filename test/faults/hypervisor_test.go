package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// hypervisor is a node with libvirt and a guest of QEMU that counts on its console.
type hypervisor struct {
	*victim
	random  *rand.Rand
	images  map[string]string // of each version, as a container's settings name it
	start   string            // of the guest, see stat
	born    string            // the container that started the guest
	printed []byte            // on the console when the guest was saved
	left    int               // attempts until the guest is replaced

	births  int // guests
	insides int // attempts with the guest in a cgroup of libvirt's container
}

const (
	libvirtService = "nova-libvirt"
	tickerName     = "ticker"
	tickerDir      = "/var/lib/nova/instances/" + tickerName // in the container
	savedGuest     = tickerDir + "/saved"
	// attemptsOfGuest is how many attempts a guest lives.
	attemptsOfGuest = 6
)

// libvirtTags are the images of a node's versions.
var libvirtTags = map[string]string{"v1": nodetest.OldVersion, "v2": nodetest.NewVersion}

// newHypervisor returns a node on its second generation.
func newHypervisor(t testing.TB, engine nodetest.Engine, registry *machine.Registry, seed uint64) *hypervisor {
	t.Helper()
	h := &hypervisor{
		victim: newVictimAt(t, engine, registry, 0, t.TempDir()), random: rand.New(rand.NewPCG(seed, 1)),
		images: map[string]string{},
	}
	check(t, os.MkdirAll(h.Path("/modules"), 0o755)) // a machine without modules may have no /lib/modules
	for i, tag := range []string{"v1", "v2"} {
		h.configure(tag, false)
		h.Must(0, []string{"bootstrap", "upgrade"}[i])
		c, err := h.running()
		check(t, err)
		h.tag, h.images[tag] = tag, c.Spec.Image
	}
	check(t, h.firstGuest())
	return h
}

// guestDir is the guest's directory on this machine.
func (h *hypervisor) guestDir() string {
	return filepath.Join(h.engine.Volume(h.Root, "nova_compute"), "instances", tickerName)
}

// configure writes a node file. What takes the most time of an upgrade is made shorter:
// there is no warm-up, libvirt probes one QEMU program instead of two, and with a cache that
// outlives the container it does not always probe that. With broken, the new libvirt works and
// takes over the guest, but is not called healthy.
func (h *hypervisor) configure(tag string, broken bool) {
	h.T.Helper()
	probe := `{exec: [virsh, -c, "qemu:///system", version, --daemon], interval: 100ms, start_period: 120s, stable: 50ms, timeout: 60s}`
	if broken {
		probe = `{exec: ["false"], interval: 100ms, start_period: 500ms}`
	}
	h.Write(node.DefaultNodeFile, fmt.Sprintf(`engine: %s
images: {registry: %s/kolla, tag: %q}
network: none
keep_generations: 1
vars: {virt_type: qemu, word: %s}
services:
  nova-compute: {disabled: true}
  nova-libvirt:
    warmup: []
    volumes:
      - {source: %s, target: /lib/modules, read_only: true}
      - {source: /dev/null, target: /usr/bin/qemu-system-i386}
      - {source: libvirt_cache, target: /var/cache/libvirt}
    config: [{content: "{{ .vars.word }}\n", dest: /etc/word, owner: root, perm: "0600"}]
    healthcheck: [%s]
`, h.engine.Name, h.registry.Addr, libvirtTags[tag], tag, h.Path("/modules"), probe))
}

// virsh runs it in the container of libvirt that runs.
func (h *hypervisor) virsh(args ...string) (string, error) {
	c, err := h.running()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out, problems bytes.Buffer
	status, err := h.Engine.Exec(ctx, c.ID, containers.Exec{
		Argv: append([]string{"virsh", "-c", "qemu:///system"}, args...), Short: true, Stdout: &out, Stderr: &problems,
	})
	if err != nil || status != 0 {
		return "", errors.Join(fmt.Errorf("virsh %s: exit status %d: %s", strings.Join(args, " "), status, &problems), err)
	}
	return out.String(), nil
}

// libvirts returns the processes that are libvirt past its gate, at one time. What libvirt
// starts has its name until it executes a program.
func libvirts() []int {
	names := []string{"libvirtd", "libvirt-start"}
	comm := func(pid int) string {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return strings.TrimSpace(string(text))
	}
	is := func(pid int) bool {
		if !slices.Contains(names, comm(pid)) {
			return false
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return strings.Contains(string(line), "libvirtd\x00--listen\x00") && !slices.Contains(append(names, "kollet-start"), comm(parent(pid)))
	}
	var all []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && is(pid) {
			all = append(all, pid)
		}
	}
	if len(all) < 2 {
		return all
	}
	// The first may have exited before the last began to run.
	return slices.DeleteFunc(all, func(pid int) bool { return !is(pid) })
}

// oneLibvirt requires that libvirt does not run twice.
func oneLibvirt() error {
	if all := libvirts(); len(all) > 1 {
		return fmt.Errorf("libvirt ran twice at one time: processes %v", all)
	}
	return nil
}

// running returns the container of libvirt that is past its gate; none if there is none. It
// is an error if there are two.
func (h *hypervisor) running() (containers.Container, error) {
	all, err := h.own()
	if err != nil {
		return containers.Container{}, err
	}
	past := libvirts()
	all = slices.DeleteFunc(all, func(c containers.Container) bool { return !slices.Contains(past, c.PID) })
	switch len(all) {
	case 0:
		return containers.Container{}, nil
	case 1:
		return all[0], nil
	}
	return containers.Container{}, fmt.Errorf("libvirt runs twice: %s and %s", all[0].Spec.Name, all[1].Spec.Name)
}

// whole requires that exactly libvirt of one version runs, with its config file, that the
// engine will start it again, and that it knows the guest.
func (h *hypervisor) whole(tag string) error {
	c, err := h.running()
	if err != nil {
		return err
	}
	if c.ID == "" {
		return errors.New("libvirt does not run")
	}
	origins, err := h.origins()
	if err != nil {
		return err
	}
	if err := h.restarts(map[string]containers.Container{libvirtService: c}); err != nil {
		return err
	}
	word, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/etc/word", c.PID))
	if err != nil {
		return err
	}
	got := []string{c.Spec.Labels[node.LabelGeneration], c.Spec.Image, strings.TrimSpace(string(word))}
	if want := []string{origins[libvirtService], h.images[tag], tag}; !slices.Equal(got, want) {
		return fmt.Errorf("the generation, image and config file of libvirt are %q, want %q", got, want)
	}
	if !h.runs() {
		return h.alive()
	}
	list, err := h.virsh("list", "--state-running", "--uuid")
	if err == nil && strings.TrimSpace(list) != h.uuid {
		err = fmt.Errorf("libvirt says that these guests run: %q", list)
	}
	return err
}

// verified requires that the node is on one version, that kollet says so too, and that the
// guest continues to count.
func (h *hypervisor) verified(tag string) error {
	if err := h.whole(tag); err != nil {
		return err
	}
	ticks, err := machine.Ticks(h.console())
	if err != nil {
		return err
	}
	if o := h.Kollet("verify"); o.Code != 0 {
		return fmt.Errorf("verify: exit status %d: %s", o.Code, o.All())
	}
	if !h.runs() {
		return h.alive()
	}
	return h.ticksTo(len(ticks) + 1)
}

// goesOn requires that the node keeps only what its guest needs and, if it is upgraded
// before, that this succeeds.
func (h *hypervisor) goesOn(upgraded bool) error {
	if upgraded {
		h.configure(h.other(), false)
		if o := h.Kollet("upgrade"); o.Code != 0 {
			return fmt.Errorf("the next upgrade: exit status %d: %s", o.Code, short(o))
		}
		h.tag = h.other()
		if err := errors.Join(h.whole(h.tag), h.alive()); err != nil {
			return fmt.Errorf("after the next upgrade: %w", err)
		}
	}
	if o := h.Kollet("gc"); o.Code != 0 {
		return fmt.Errorf("gc: exit status %d: %s", o.Code, short(o))
	}
	all, err := h.own()
	if err != nil {
		return err
	}
	c, err := h.running()
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.ID != c.ID && other.ID != h.born {
			return fmt.Errorf("%s is left, and %s", other.Spec.Name, other.State)
		}
	}
	return h.alive()
}
