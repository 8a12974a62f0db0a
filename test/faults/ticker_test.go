package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kollet/kollet/test/machine"
)

// birth brings the guest to where an attempt begins. It is replaced if it has lived long
// enough, or was lost with a shim. Otherwise every third attempt leaves it where it is.
func (h *hypervisor) birth() error {
	h.left--
	if h.left < 0 || !h.runs() {
		h.left = attemptsOfGuest
		return h.replaceGuest()
	}
	h.exposed = false
	if h.random.IntN(3) == 0 {
		return nil
	}
	return h.moveInside()
}

// firstGuest boots the guest and saves it: to restore it takes less time than to boot it.
func (h *hypervisor) firstGuest() error {
	machine.PlaceGuest(h.T, h.guestDir())
	if err := os.WriteFile(h.guestDir()+"/domain.xml", []byte(machine.GuestXML(tickerName, h.uuid, tickerDir)), 0o644); err != nil {
		return err
	}
	if _, err := h.virsh("create", tickerDir+"/domain.xml"); err != nil {
		return err
	}
	if err := h.ticksTo(1); err != nil {
		return err
	}
	if _, err := h.virsh("save", tickerName, savedGuest); err != nil {
		return err
	}
	var err error
	h.printed, err = os.ReadFile(h.console())
	return err
}

// replaceGuest restores the guest, as another process.
func (h *hypervisor) replaceGuest() error {
	if h.runs() {
		if _, err := h.virsh("destroy", tickerName); err != nil {
			return err
		}
	}
	if err := os.WriteFile(h.console(), h.printed, 0o600); err != nil {
		return err
	}
	c, err := h.running()
	if err != nil {
		return err
	}
	if _, err := h.virsh("restore", savedGuest); err != nil {
		return err
	}
	text, err := os.ReadFile("/run/libvirt/qemu/" + tickerName + ".pid")
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	h.exposed, h.born, h.start = false, c.ID, stat(pid, 19)
	h.births++
	h.insides++
	h.guest, err = os.FindProcess(pid)
	return err
}

// moveInside puts the guest back into the cgroups of libvirt's container from which an
// upgrade has moved it: the next has to move it again, as a guest that was just started.
func (h *hypervisor) moveInside() error {
	c, err := h.running()
	if err != nil {
		return err
	}
	groups := machine.NewCgroups(h.T)
	first := groups.Of(c.PID)
	for hierarchy, at := range groups.Of(h.guest.Pid) {
		if !strings.Contains(at, "kollet-guests") {
			continue
		}
		if err := groups.Join(h.guest.Pid, hierarchy, first[hierarchy]); err != nil {
			return err
		}
	}
	h.insides++
	return nil
}

func (h *hypervisor) console() string { return filepath.Join(h.guestDir(), machine.Console) }

// ticksTo waits until the guest has counted to a number, without having skipped one.
func (h *hypervisor) ticksTo(number int) error {
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ticks, err := machine.Ticks(h.console())
		if err != nil {
			return err
		}
		if len(ticks) >= number {
			return machine.Unbroken(ticks)
		}
		if time.Now().After(end) {
			return fmt.Errorf("the guest does not tick any longer: %d of %d", len(ticks), number)
		}
	}
}

// runs reports whether the guest is the process that it was.
func (h *hypervisor) runs() bool {
	if h.guest == nil {
		return false
	}
	state := stat(h.guest.Pid, 0)
	return state != "" && !strings.Contains("ZX", state) && stat(h.guest.Pid, 19) == h.start
}

// alive requires that, unless the engine may have killed it.
func (h *hypervisor) alive() error {
	if !h.runs() && !h.exposed {
		return errors.New("the guest is lost")
	}
	return nil
}
