package userdata_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/kollet/kollet/agent/userdata"
)

// User-data of other programs is read too: other boundaries, encodings, folded
// headers, nested messages.
func TestReadsWhatHeatMakes(t *testing.T) {
	data, err := exec.Command("/usr/bin/python3", "testdata/heat.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{data, bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))} {
		m, _, err := userdata.Read("heat", data)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Problems("heat"); err != nil {
			t.Error(err)
		}
		parts, _ := json.Marshal(m.Report().Parts)
		size := map[bool]string{false: "77", true: "80"}[bytes.Contains(data, []byte("\r"))]
		want := `[{"type":"text/x-shellscript","name":"tune.sh","size":18},` +
			`{"type":"text/cloud-config","name":"café.yaml","size":` + size + `,"merge":"list(append)","files":[{"path":"/a","size":11}],"commands":2},` +
			`{"type":"text/cloud-boothook","size":` + map[string]string{"77": "16", "80": "17"}[size] + `},` +
			`{"type":"text/x-cfninitdata","size":1,"note":"cloud-init has no handler for this type and ignores it"}]`
		if string(parts) != want {
			t.Errorf("got  %s\nwant %s", parts, want)
		}
	}
}
