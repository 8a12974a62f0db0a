// Command oci-runtime-bounded stands in for runc on machines whose capability
// bounding set is restricted. Docker takes it with --add-runtime and
// --default-runtime, containerd as the runtime option BinaryName.
package main

import (
	"os"

	"github.com/kollet/kollet/test/machine/bounded"
)

func main() {
	os.Exit(bounded.Main(os.Args))
}
