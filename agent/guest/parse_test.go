package guest

import (
	"strings"
	"testing"
)

func TestParseArguments(t *testing.T) {
	const id = "11111111-2222-3333-4444-555555555555"
	for name, c := range map[string]struct {
		args []string
		name string // empty: no guest
		uuid string
	}{
		"libvirt 9":     {[]string{"/usr/bin/qemu-system-x86_64", "-name", "guest=instance-00000001,debug-threads=on", "-S", "-object", "{}", "-uuid", id, "-no-user-config"}, "instance-00000001", id},
		"RHEL":          {[]string{"/usr/libexec/qemu-kvm", "-name", "guest=a,process=qemu:a,debug-threads=on", "-uuid", id}, "a", id},
		"kvm":           {[]string{"kvm", "-name", "a", "-uuid", id}, "a", id},
		"old form":      {[]string{"/usr/bin/qemu-system-arm", "-uuid", id, "-name", "a,debug-threads=on"}, "a", id},
		"later":         {[]string{"qemu-system-x86_64", "-name", "debug-threads=on,guest=a", "-uuid", id}, "a", id},
		"commas":        {[]string{"qemu-system-x86_64", "-name", "guest=a,,b,,,,c,,,debug-threads=on", "-uuid", id}, "a,b,,c,", id},
		"a name's word": {[]string{"qemu-system-x86_64", "-name", "guest=x,,guest=y,debug-threads=on", "-uuid", id}, "x,guest=y", id},
		"not ASCII":     {[]string{"qemu-system-x86_64", "-name", "guest=gäst 1,debug-threads=on", "-uuid", id}, "gäst 1", id},
		// The owner of a guest chooses its kernel's command line (os_command_line).
		"owner's words":   {[]string{"qemu-system-x86_64", "-name", "guest=a", "-uuid", id, "-append", "-uuid", "-name", "guest=b", "-device", "x"}, "a", id},
		"another program": {[]string{"/usr/sbin/libvirtd", "-name", "guest=a", "-uuid", id}, "", ""},
		"its arguments":   {[]string{"less", "qemu-system-x86_64", "-name", "guest=a", "-uuid", id}, "", ""},
		"qemu-img":        {[]string{"qemu-img", "-name", "guest=a", "-uuid", id}, "", ""},
		"only asked":      {[]string{"/usr/bin/qemu-system-x86_64", "-S", "-no-user-config", "-nodefaults", "-machine", "none"}, "", ""},
		"no uuid":         {[]string{"qemu-system-x86_64", "-name", "guest=a"}, "", ""},
		"no value":        {[]string{"qemu-system-x86_64", "-uuid", id, "-name"}, "", ""},
		"no arguments":    {[]string{"qemu-system-x86_64"}, "", ""},
		"empty arguments": {[]string{"qemu-system-x86_64", "", "-name", "", "-uuid", ""}, "", ""},
		"kernel thread":   {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			name, uuid, ok := parseArguments(c.args)
			if ok != (c.name != "") || ok && (name != c.name || uuid != c.uuid) {
				t.Errorf("got %q, %q, %v", name, uuid, ok)
			}
		})
	}
}

func FuzzParseArguments(f *testing.F) {
	f.Add("qemu-system-x86_64\x00-name\x00guest=a,,b,x=y\x00-uuid\x00u\x00")
	f.Add("\x00\x00")
	f.Fuzz(func(t *testing.T, cmdline string) {
		name, uuid, ok := parseArguments(strings.Split(cmdline, "\x00"))
		if ok && (name == "" || uuid == "" || strings.Contains(name+uuid, "\x00") || len(name)+len(uuid) > len(cmdline)) {
			t.Errorf("%q is %q, %q", cmdline, name, uuid)
		}
	})
}

// FuzzGuestName: what libvirt writes is read again (virQEMUBuildBufferEscapeComma).
func FuzzGuestName(f *testing.F) {
	for _, name := range []string{"a", "a,b", ",", ",,", "guest=", "a=b,guest=c"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if strings.Contains(name, "\x00") {
			return // no argument of a program has one
		}
		option := "guest=" + strings.ReplaceAll(name, ",", ",,") + ",debug-threads=on"
		if got := guestName(option); got != name {
			t.Errorf("%q is read as %q", option, got)
		}
	})
}
