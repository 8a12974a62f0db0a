package bounded

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestLower(t *testing.T) {
	process := map[string]any{"rlimits": []any{
		map[string]any{"type": "RLIMIT_NOFILE", "soft": json.Number("500"), "hard": json.Number("18446744073709551615")},
		map[string]any{"type": "RLIMIT_NPROC", "soft": json.Number("7"), "hard": json.Number("8")},
		map[string]any{"type": "RLIMIT_NEW", "soft": json.Number("5000"), "hard": json.Number("5000")},
	}}
	top := func(name string) (uint64, bool) { return 1000, name != "RLIMIT_NEW" }
	if !lower(process, top) {
		t.Fatal("nothing was lowered")
	}
	want := []any{
		map[string]any{"type": "RLIMIT_NOFILE", "soft": json.Number("500"), "hard": json.Number("1000")},
		map[string]any{"type": "RLIMIT_NPROC", "soft": json.Number("7"), "hard": json.Number("8")},
		map[string]any{"type": "RLIMIT_NEW", "soft": json.Number("5000"), "hard": json.Number("5000")},
	}
	if !reflect.DeepEqual(process["rlimits"], want) {
		t.Fatalf("got %v", process["rlimits"])
	}
	if lower(process, top) {
		t.Fatal("lowered twice")
	}
}
