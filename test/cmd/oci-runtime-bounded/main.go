// Command oci-runtime-bounded replaces runc on machines whose capability bounding set is
// restricted. Configure it with Docker's options --add-runtime and --default-runtime, or
// containerd's runtime option BinaryName.
package main

import (
	"os"

	"github.com/kollet/kollet/test/machine/bounded"
)

func main() {
	os.Exit(bounded.Main(os.Args))
}
