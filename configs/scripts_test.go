package configs_test

import (
	"os/exec"
	"testing"
)

// Programs other than libvirtd are executed without preparation: no virtlogd, no directories.
func TestLibvirtStartPassesOthersThrough(t *testing.T) {
	out, err := exec.Command("sh", "templates/libvirt-start.tmpl", "echo", "a b", "c").CombinedOutput()
	if err != nil || string(out) != "a b c\n" {
		t.Errorf("got %q, %v", out, err)
	}
}
