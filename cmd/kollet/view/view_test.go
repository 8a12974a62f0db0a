package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/doctor"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/plan"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/containers"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func screen(format Format) (Screen, *bytes.Buffer, *bytes.Buffer) {
	var out, err bytes.Buffer
	return Screen{
		Out: &out, Err: &err, Format: format,
		Getenv: func(string) string { return "" },
		Now:    func() time.Time { return noon },
	}, &out, &err
}

var views = []struct {
	name string
	view View
	want string
}{
	{"no change", Plan{Plan: plan.Plan{From: 3}}, `
nothing to do: the node is on generation 3
`},
	{"plan", Plan{Plan: plan.Plan{From: 3, Changes: []plan.Change{
		{Service: "nova-libvirt", Action: plan.Replace, Image: &plan.ImageChange{From: "r/nova-libvirt:1", To: "r/nova-libvirt:2", Pull: true}},
		{
			Service: "nova-compute", Action: plan.Replace, Spec: []string{"privileged: false, now true"},
			Repair: []string{"container nova-compute was removed manually"},
			Files: []plan.FileChange{
				{Path: "/etc/nova/nova.conf", Diff: "--- a\n+++ b\n@@ -1 +1 @@\n-debug = false\n+debug = true\n"},
				{Path: "/etc/nova/secret.conf", Note: "a secret in it changes"},
			},
		},
		{Service: "telegraf", Action: plan.Add, Image: &plan.ImageChange{To: "telegraf:1"}},
		{Service: "old", Action: plan.Drop},
	}, Drift: []plan.Drift{{Service: "nova-compute", Text: "container nova-compute was removed manually"}}}}, `
~ nova-libvirt: replace
    image    r/nova-libvirt:1
          -> r/nova-libvirt:2 (to be pulled)

~ nova-compute: replace
    setting  privileged: false, now true
    repair   container nova-compute was removed manually
    file     /etc/nova/nova.conf
        --- a
        +++ b
        @@ -1 +1 @@
        -debug = false
        +debug = true
    file     /etc/nova/secret.conf: a secret in it changes

+ telegraf: add
    image    telegraf:1

- old: remove

from generation 3; services: 1 to add, 2 to replace, 1 to remove; 2 new or changed files; 1 image to pull
`},
	{"a tag that means another image now", Plan{Plan: plan.Plan{From: 3, Changes: []plan.Change{
		{Service: "web", Action: plan.Replace, Image: &plan.ImageChange{From: "web:1", To: "web:1", Pull: true}},
	}}}, `
~ web: replace
    image    web:1 (to be pulled)

from generation 3; services: 1 to replace; 0 new or changed files; 1 image to pull
`},
	{"an image for one upgrade, and one that is taken back", Plan{Plan: plan.Plan{From: 3, Changes: []plan.Change{
		{Service: "web", Action: plan.Replace, Image: &plan.ImageChange{From: "web:1", To: "web:2", InsteadOf: "web:1"}},
		{Service: "db", Action: plan.Replace, Image: &plan.ImageChange{From: "db:2", To: "db:1"}},
	}}}, `
~ web: replace
    image    web:1
          -> web:2
             instead of the node file's web:1

~ db: replace
    image    db:2
          -> db:1

from generation 3; services: 2 to replace; 0 new or changed files; 0 images to pull
`},
	{"a service that keeps its container", Plan{Plan: plan.Plan{From: 3, Changes: []plan.Change{
		{Service: "web", Action: plan.UpdateInPlace, Spec: []string{"healthcheck: changed"}},
		{Service: "db", Action: plan.Add, Files: []plan.FileChange{{Path: "/etc/db", Note: "new"}}},
	}}}, `
= web: update in place; its container keeps running
    setting  healthcheck: changed

+ db: add
    file     /etc/db: new

from generation 3; services: 1 to add, 1 to update in place; 1 new or changed file; 0 images to pull
`},
	{"drift of a service that is dropped", Plan{Plan: plan.Plan{From: 3, Drift: []plan.Drift{{Service: "old", Text: "old is gone"}}}}, `
old: old is gone
from generation 3; no service changes; 0 new or changed files; 0 images to pull
`},
	{"upgrade", Upgrade{Seconds: 12.34, Result: upgrade.Result{
		Outcome: journal.Committed, From: 3, To: 4, Guests: 5,
		Plan: plan.Plan{Changes: []plan.Change{{Service: "nova-libvirt", Action: plan.Replace}, {Service: "old", Action: plan.Drop}}},
		Gaps: map[string]journal.Gap{"nova-libvirt": {Ended: 4.12, Opened: 9, Healthy: 1812.5}},
	}}, `
SERVICE       ACTION   ENDED  OPENED  HEALTHY
nova-libvirt  replace  4.1ms  9.0ms   1812.5ms
old           remove   -      -       -
generation 4 replaced 3 in 12.3s; 5 guests kept running
`},
	{"a hotfix", Upgrade{Seconds: 2, Result: upgrade.Result{
		Outcome: journal.Committed, From: 3, To: 4,
		Plan: plan.Plan{Hotfixes: []plan.Hotfix{{Service: "web", Value: "web:2", NodeFile: "web:1", State: plan.Set}}},
	}}, `
generation 4 replaced 3 in 2.0s; no guests were running
web: hotfix: image web:2 instead of the node file's web:1; it stays until the node file says the same or ` + "`kollet upgrade --drop-image web`" + ` drops it
`},
	{"bootstrap", Upgrade{Seconds: 75, Result: upgrade.Result{Outcome: journal.Committed, To: 1}}, `
generation 1 started in 1m15s; no guests were running
`},
	{"nothing to do", Upgrade{Result: upgrade.Result{Outcome: journal.Unchanged, From: 4, To: 4}}, `
nothing to do: the node is on generation 4
`},
	{"recovery", Recovery{Found: true, From: 3, To: 4, Outcome: journal.RolledBack, Current: 3}, `
the upgrade from generation 3 to 4 was interrupted: rolled back
the node is on generation 3
`},
	{"recovery after the commit", Recovery{Found: true, From: 3, To: 4, Outcome: journal.Committed, Current: 4}, `
the interrupted upgrade to generation 4 had committed and is finished
the node is on generation 4
`},
	{"nothing to recover", Recovery{Current: 3}, `
nothing to recover: no upgrade was interrupted
`},
	{"status", Status{
		Node: "cmp1", Generation: 4, Since: noon.Add(-3 * time.Hour), Guests: 1, Underway: node.Underway{Interrupted: true},
		Engine: containers.Info{Name: "docker", Version: "20.10.24"},
		Services: []agent.ServiceStatus{
			{Name: "nova-libvirt", State: "running", Health: "healthy", Image: "r/nova-libvirt:1", Generation: 2, Since: noon.Add(-48 * time.Hour)},
			{Name: "nova-compute", State: "missing", Health: "unknown", Why: "run `kollet verify`", Image: "r/nova-compute:1", Generation: 4},
		},
	}, `
node cmp1: generation 4, created 3 hours ago; docker 20.10.24, 1 guest, not healthy
an upgrade was interrupted; run ` + "`kollet recover`" + `
SERVICE       STATE    HEALTH   IMAGE             GENERATION  SINCE
nova-libvirt  running  healthy  r/nova-libvirt:1  2           2 days ago
nova-compute  missing  unknown  r/nova-compute:1  4           -
nova-compute: run ` + "`kollet verify`" + `
`},
	{"status after a cutover", Status{
		Node: "cmp1", Generation: 4, Since: noon, Underway: node.Underway{Interrupted: true, Committed: true, To: 5},
		Services: []agent.ServiceStatus{
			{Name: "a", State: "exited", Health: "unknown", Why: "replaced", Image: "a:1", Generation: 4},
			{Name: "b", State: "exited", Health: "unknown", Why: "fails", Image: "b:1", Generation: 4},
			{Name: "c", State: "exited", Health: "unknown", Why: "replaced", Image: "c:1", Generation: 4},
		},
	}, `
node cmp1: generation 4, created less than a second ago;  , 0 guests, not healthy
the upgrade to generation 5 has committed, but was interrupted; ` + "`kollet recover`" + ` finishes it
SERVICE  STATE   HEALTH   IMAGE  GENERATION  SINCE
a        exited  unknown  a:1    4           -
b        exited  unknown  b:1    4           -
c        exited  unknown  c:1    4           -
a, c: replaced
b: fails
`},
	{"verify", Verification{Generation: 4, Services: 2, Drift: []plan.Drift{{Service: "web", What: "copied file", Text: "/etc/a in web was changed manually"}}}, `
SERVICE  WHAT         DRIFT
web      copied file  /etc/a in web was changed manually
1 difference from generation 4; ` + "`kollet upgrade`" + ` repairs it
`},
	{"no drift", Verification{Generation: 4, Services: 2}, `
no drift from generation 4 in 2 services
`},
	{"verify during an upgrade", Verification{
		Generation: 4, Services: 1, CutOver: []string{"db"}, Underway: node.Underway{Running: "kollet upgrade, process 12"},
		Drift: []plan.Drift{{Service: "web", What: "spec", Text: "container web: a"}, {Service: "web", What: "spec", Text: "container web: b"}},
	}, `
kollet upgrade, process 12, is changing the node
not compared, as the upgrade replaces them: db
SERVICE  WHAT  DRIFT
web      spec  container web: a
web      spec  container web: b
2 differences from generation 4; ` + "`kollet upgrade`" + ` repairs them
`},
	{"plan after an interruption", Plan{Plan: plan.Plan{From: 3}, Underway: node.Underway{Interrupted: true}}, `
an upgrade was interrupted; run ` + "`kollet recover`" + `
nothing else to do: the node file describes generation 3
`},
	{"entry", Entry{
		Generation: 4, From: 3, Reason: "upgrade", Started: noon.Add(-time.Minute), Took: agent.Seconds(1500 * time.Millisecond),
		Outcome: journal.RolledBack, Why: "verify: nova-compute is not healthy", Kept: true,
		Steps: []agent.StepTime{{Step: "pull", Took: agent.Seconds(12 * time.Millisecond)}, {Step: "verify (failed)", Took: agent.Seconds(time.Second)}},
	}, `
generation 4, from 3: upgrade
started 2026-01-02 11:59:00 UTC (about a minute ago), took 1.5s
rolled back; it is kept for a rollback
verify: nova-compute is not healthy

STEP             TOOK
pull             12ms
verify (failed)  1.0s
`},
	{"guests", Guests{
		{Guest: guest.Guest{Name: "vm1", UUID: "u1", PID: 17, Generation: 3, Service: "nova-libvirt"}, Container: "nova-libvirt-g3", Image: "nova-libvirt:1", QEMU: "7.2.22 (Debian 1:7.2-7)", NextQEMU: "8.2.2", Helpers: []guest.Process{{Name: "virtlogd", PID: 30}, {Name: "swtpm", PID: 31}}, Ending: []guest.Process{{Name: "sh\x1b", PID: 32}}},
		{Guest: guest.Guest{Name: "vm2", UUID: "u2", PID: 1800, Generation: 4, Service: "nova-libvirt"}, Container: "nova-libvirt", Image: "nova-libvirt:2", QEMU: "8.2.2", NextQEMU: "8.2.2", Exposed: []string{"devices", "pids"}},
		{Guest: guest.Guest{Name: "vm3", UUID: "u3", PID: 19, Generation: 4, Service: "nova-libvirt"}, Container: "nova-libvirt", Image: "nova-libvirt:2", QEMU: "8.2.2 (Debian 1:8.2-1)", NextQEMU: "8.2.2 (Debian 1:8.2-2)"},
		{Guest: guest.Guest{Name: "vm4", UUID: "u4", PID: 20, Generation: 4, Service: "nova-libvirt"}, Container: "nova-libvirt", Image: "nova-libvirt:2"},
	}, `
GUEST  UUID  PID   GENERATION  RUNS FROM        IMAGE           QEMU     AFTER HARD REBOOT  IF STOPPED MANUALLY
vm1    u1    17    3           nova-libvirt-g3  nova-libvirt:1  7.2.22   8.2.2              survives
vm2    u2    1800  4           nova-libvirt     nova-libvirt:2  8.2.2    same               dies (devices, pids)
vm3    u3    19    4           nova-libvirt     nova-libvirt:2  8.2.2    Debian 1:8.2-2     survives
vm4    u4    20    4           nova-libvirt     nova-libvirt:2  unknown  unknown            survives
kept with the guests when nova-libvirt is replaced: virtlogd (process 30), swtpm (process 31)
end with nova-libvirt, as they serve no guest: sh\x1b (process 32)
`},
	{"checks", Checks{
		{Name: "engine", Level: doctor.Fine, Text: "docker"},
		{Name: "kvm", Level: doctor.Warning, Text: "there is no /dev/kvm", Remedy: "switch it on"},
		{Name: "node file", Level: doctor.Bad, Text: "node.yaml:1:1: engin: unknown key\nnode.yaml:2:1: tga: unknown key", Remedy: "fix it"},
	}, `
CHECK      LEVEL    FINDING
engine     ok       docker
kvm        warning  there is no /dev/kvm
                    -> switch it on
node file  problem  node.yaml:1:1: engin: unknown key
                    node.yaml:2:1: tga: unknown key
                    -> fix it
`},
	{"garbage", Garbage{Generations: []int{1}, Containers: []string{"web-g1"}, Images: []string{"sha256:1"}, Pinned: []string{"nova-libvirt-g2"}}, `
removed generation 1
removed container web-g1
removed image sha256:1
kept container nova-libvirt-g2: guests run from it
`},
	{"no garbage", Garbage{}, `
nothing to remove
`},
	{"version", Version{Version: "v1", Commit: "abc", Go: "go1", Platform: "linux/amd64", Formats: FileFormats{1, 2, 3}}, `
kollet v1 (commit abc, go1, linux/amd64)
formats: node file 1, journal 2, generation record 3
`},
	{"a name of two lines", Files{"/a\nb"}, `
/a�b
`},
	{"control characters", Files{"a\x1b[2Jb\x00\xff"}, `
a` + "\uFFFD[2Jb\uFFFD\uFFFD" + `
`},
}

func TestTables(t *testing.T) {
	for _, test := range views {
		t.Run(test.name, func(t *testing.T) {
			s, out, _ := screen(Table)
			if err := New(s).Show(test.view); err != nil {
				t.Fatal(err)
			}
			if got, want := out.String(), strings.TrimPrefix(test.want, "\n"); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// Both documents hold the same, and every key of the agent's result.
func TestDocuments(t *testing.T) {
	for _, test := range views {
		t.Run(test.name, func(t *testing.T) {
			var fromJSON, fromYAML any
			s, out, _ := screen(JSON)
			if err := New(s).Show(test.view); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(out.Bytes(), &fromJSON); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			s, out, _ = screen(YAML)
			if err := New(s).Show(test.view); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), "{") && !strings.Contains(out.String(), "{}") {
				t.Errorf("not in block style:\n%s", out)
			}
			if err := yaml.Unmarshal(out.Bytes(), &fromYAML); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			again, err := json.Marshal(fromYAML)
			if err != nil {
				t.Fatal(err)
			}
			fromYAML = nil
			if err := json.Unmarshal(again, &fromYAML); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(fromJSON, fromYAML) {
				t.Errorf("YAML differs from JSON:\n%s", out)
			}
		})
	}
}

func TestYAMLKeepsTypes(t *testing.T) {
	for _, text := range []string{"true", "26.2", "null", "", "~", "0x1f", "no", "2026-01-02", "a: b", "# c", "- d", "line\nline\n", " x", "\t", "é", "<&>", "1e3", "=", "!t", "{", "@"} {
		data, err := toYAML(map[string]string{"k": text})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var back map[string]any
		if err := yaml.Unmarshal(data, &back); err != nil || back["k"] != text {
			t.Errorf("%q became %#v (%v) in %s", text, back["k"], err, data)
		}
	}
}

func TestFail(t *testing.T) {
	problems := errors.New("node.yaml:1:2: a: bad\nnode.yaml:3:4: b: bad; last log lines:\n  | \x1b[31mboom\x1b[00m\x1b[2J")
	s, out, err := screen(Table)
	New(s).Fail(problems, 2, nil)
	want := "kollet: node.yaml:1:2: a: bad\nkollet: node.yaml:3:4: b: bad; last log lines:\n  | boom\uFFFD[2J\n"
	if out.Len() != 0 || err.String() != want {
		t.Errorf("got %q and %q", out, err)
	}
	s, out, err = screen(JSON)
	New(s).Fail(problems, 1, Files{"/a"})
	var doc struct {
		Error  string
		Exit   int
		Result []string
	}
	if e := json.Unmarshal(out.Bytes(), &doc); e != nil || doc.Error != problems.Error() || doc.Exit != 1 || len(doc.Result) != 1 {
		t.Errorf("got %s (%v)", out, e)
	}
	if err.String() != want {
		t.Errorf("got %q", err)
	}
}

func TestLines(t *testing.T) {
	events := []node.Event{
		{Kind: node.StepBegins, Step: "pull"},
		{Kind: node.Pulling, Service: "web", Done: 10, Total: 0},
		{Kind: node.Pulling, Service: "web", Done: 10 << 20, Total: 20 << 20},
		{Kind: node.Pulling, Service: "web", Done: 11 << 20, Total: 80 << 20}, // a layer more
		{Kind: node.Pulling, Service: "db", Done: 1 << 20, Total: 1 << 20},
		{Kind: node.Pulling, Service: "web", Done: 80 << 20, Total: 80 << 20},
		{Kind: node.Pulling, Service: "web", Done: 80 << 20, Total: 80 << 20},
		{Kind: node.StepEnds, Step: "pull", Text: "1.234s"},
		{Kind: node.StepBegins, Step: "stage"},
		{Kind: node.StepFails, Step: "stage", Text: "why"},
		{Kind: node.Note, Text: "rolling back: why\n  | boom"},
		{Kind: node.Note, Service: "web", Text: "left alone"},
	}
	s, out, err := screen(Table)
	p := New(s)
	for _, e := range events {
		p.Progress(e)
	}
	p.Say("interrupted")
	p.Close()
	p.Progress(node.Event{Kind: node.Note, Text: "late"})
	want := `pull: started
pull web: 50% of 20MiB
pull db: 100% of 1MiB
pull web: 100% of 80MiB
pull: done in 1.2s
stage: started
stage: failed
rolling back: why
web: left alone
interrupted
`
	if out.Len() != 0 || err.String() != want {
		t.Errorf("got %q and\n%s\nwant\n%s", out, err, want)
	}
	s, out, err = screen(Table)
	s.Quiet = true
	p = New(s)
	for _, e := range events {
		p.Progress(e)
	}
	p.Close()
	if out.Len()+err.Len() != 0 {
		t.Errorf("quiet, it said %q and %q", out, err)
	}
}

// A blocked terminal delays neither progress nor Close.
func TestStuckTerminal(t *testing.T) {
	reader, writer := io.Pipe() // nobody reads
	defer reader.Close()
	s, out, _ := screen(JSON)
	s.Err = writer
	p := New(s)
	for range 10 * queueLength {
		p.Progress(node.Event{Kind: node.StepBegins, Step: "cut over"})
	}
	p.Say("interrupted")
	if err := p.Show(Files{"/a"}); err != nil || out.Len() == 0 {
		t.Errorf("the result is lost: %v", err)
	}
}
