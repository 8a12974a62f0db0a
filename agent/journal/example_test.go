package journal_test

import (
	"fmt"
	"os"
	"time"

	"github.com/kollet/kollet/agent/journal"
)

// An upgrade records each step before and after it, and recovery reads what was
// recorded.
func Example() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		fmt.Println(err)
	}
	defer os.RemoveAll(dir)

	j, err := journal.Create(dir, journal.Record{From: 1, To: 2, Reason: "upgrade", Version: "1.0.0"}, time.Now)
	if err != nil {
		fmt.Println(err)
	}
	step := journal.Step{Kind: journal.CutOver, Services: []string{"nova-libvirt"}}
	for _, r := range []journal.Record{
		{Event: journal.Intent, Step: step},
		{Event: journal.Done, Step: step},
	} {
		if err := j.Append(r); err != nil {
			fmt.Println(err)
		}
	}
	_ = j.Close() // the power fails

	records, err := journal.Read(dir, 2)
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range records[1:] { // the first is Begin
		fmt.Println(r.Event, r.Step)
	}
	fmt.Println("committed:", journal.HasCommitted(records), "ended:", journal.Ended(records))
	// Output:
	// intent cut over nova-libvirt
	// done cut over nova-libvirt
	// committed: false ended: false
}
