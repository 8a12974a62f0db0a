package guest

import (
	"testing"

	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }
