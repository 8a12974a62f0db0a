package ini_test

import (
	"fmt"

	"github.com/kollet/kollet/configs/ini"
)

func ExampleFile_Merge() {
	file, err := ini.Parse([]byte(`
[DEFAULT]
debug = false
state_path = /var/lib/nova

[libvirt]
virt_type = kvm
`))
	if err != nil {
		fmt.Println(err)
	}
	override, err := ini.Parse([]byte(`
[libvirt]
# For a trial.
virt_type = qemu
cpu_mode = none
`))
	if err != nil {
		fmt.Println(err)
	}
	file.Merge(override)
	fmt.Printf("%s", file.Bytes())
	// Output:
	// [DEFAULT]
	// debug = false
	// state_path = /var/lib/nova
	//
	// [libvirt]
	// virt_type = qemu
	// cpu_mode = none
}

func ExampleParse_errors() {
	_, err := ini.Parse([]byte("[DEFAULT]\ndebug\n[libvirt\n"))
	fmt.Println(err)
	// Output:
	// line 2: expected key = value, a [section] or a # comment
	// line 3: expected a section, such as [libvirt], and nothing after it
}
