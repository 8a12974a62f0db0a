// Command vmagent runs in a virtual machine and executes commands for the test outside;
// see test/vm/channel.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kollet/kollet/test/vm/channel"
)

func main() {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		err = serve(strings.TrimSpace(string(boot)))
	}
	fmt.Fprintln(os.Stderr, "vmagent:", err)
	os.Exit(1)
}

// serve keeps reading while no test is connected: the port then reads as empty.
func serve(boot string) error {
	port, err := os.OpenFile("/dev/virtio-ports/"+channel.Port, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for {
		_ = channel.Serve(port, boot)
		time.Sleep(200 * time.Millisecond)
	}
}
