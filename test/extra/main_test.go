// Package extra contains the end-to-end test of the services of a compute node that are
// switched off by default, in containers of the images that make extra-images builds.
package extra

import (
	"testing"

	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }
