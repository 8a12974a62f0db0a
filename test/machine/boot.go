package machine

import (
	"os"

	"golang.org/x/sys/unix"
)

// bootFile identifies the current boot (proc_sys_kernel(5)).
const bootFile = "/proc/sys/kernel/random/boot_id"

// NewBoot gives the machine the identity of another boot until the test ends, as it has
// after a power loss.
func NewBoot(t TB) {
	t.Helper()
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	file := Dir(t, "boot") + "/boot_id"
	if err == nil {
		err = os.WriteFile(file, id, 0o444)
	}
	if err == nil {
		err = unix.Mount(file, bootFile, "", unix.MS_BIND, "")
	}
	if err != nil {
		t.Fatalf("begin another boot: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(bootFile, unix.MNT_DETACH); err != nil {
			t.Fatalf("end the other boot: %v", err)
		}
	})
}
