// Package computenode contains the end-to-end tests of a compute node: libvirt, QEMU guests,
// nova-compute, the network's services and RabbitMQ, in containers of the images that kollet
// builds.
package computenode

import (
	"testing"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

var (
	check    = nodetest.Check
	contains = nodetest.Contains
	run      = nodetest.Run
)

func TestMain(m *testing.M) { machine.Main(m) }
