package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
)

// The pictures of benchmarks are well-formed, and name what they show.
func TestPictures(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(n float64) time.Time { return start.Add(time.Duration(n * float64(time.Millisecond))) }
	u := upgradeTrace{
		started: at(0), ended: at(700),
		records: []journal.Record{
			{Time: at(40), Event: journal.Begin},
			{Time: at(300), Event: journal.Done, Step: journal.Step{Kind: journal.Stage}},
			{Time: at(420), Event: journal.Done, Step: journal.Step{Kind: journal.CutOver, Services: []string{"a"}}},
			{Time: at(600), Event: journal.Commit},
			{Time: at(690), Event: journal.End},
		},
		moments: moments{lastAnswer: at(310), signal: at(310.5), end: at(312), opened: at(312.2), exec: at(313), firstAnswer: at(315)},
		events: []traceEvent{
			{at: at(309), cpu: 0, name: "sched_switch", fields: map[string]string{"next_comm": "kollet"}},
			{at: at(311), cpu: 1, name: "sched_switch", fields: map[string]string{"next_comm": "dockerd"}},
			{at: at(313), cpu: 0, name: "sched_switch", fields: map[string]string{"next_comm": benched}},
			{at: at(316), cpu: 0, name: "sched_switch", fields: map[string]string{"next_comm": "swapper/0"}},
			{at: at(316), cpu: 1, name: "sched_switch", fields: map[string]string{"next_comm": "swapper/1"}},
		},
	}
	timeline, err := u.draw("docker 1.0")
	if err != nil {
		t.Fatal(err)
	}
	curves, err := drawScale("docker 1.0", []scale{{Services: 1}, {Services: 10}, {Services: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		svg   []byte
		words []string
	}{
		"timeline": {timeline, []string{"docker 1.0", "stage, 260.0 ms", "cut over, 120.0 ms", "kollet opens the gate: 0.2 ms", "the service", "dockerd"}},
		"scale":    {curves, []string{"upgrade of all, s", "services on docker 1.0"}},
	} {
		for d := xml.NewDecoder(bytes.NewReader(c.svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for _, word := range c.words {
			if !bytes.Contains(c.svg, []byte(word)) {
				t.Errorf("%s does not name %q", name, word)
			}
		}
		if dir := os.Getenv("KOLLET_PICTURES"); dir != "" {
			if err := os.WriteFile(dir+"/"+name+".svg", c.svg, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
