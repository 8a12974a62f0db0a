package journal

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/test/needs"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return noon.In(time.FixedZone("", 3600)) }

func create(t *testing.T, dir string, to int) *Journal {
	t.Helper()
	j, err := Create(dir, Record{From: 1, To: to, Reason: "upgrade", Engine: "containerd", Version: "1.0"}, clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func add(t *testing.T, j *Journal, records ...Record) {
	t.Helper()
	for _, r := range records {
		if err := j.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	cutOver = Step{Kind: CutOver, Services: []string{"a", "b"}}
	stage   = Step{Kind: Stage}
)

var whole = []Record{
	{Event: Intent, Step: cutOver, Previous: map[string][]string{"a": {"id1", "id2"}, "b": {}}},
	{Event: Done, Step: cutOver},
	{Event: Warning, Step: cutOver, Note: "the broker does not answer"},
	{Event: Failed, Step: Step{Kind: Verify}, Note: "two\nlines, \"quoted\""},
	{Event: Commit, Gaps: map[string]Gap{"a": {1.5, 2, 3}}},
	{Event: End, Outcome: Committed},
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep/journal")
	add(t, create(t, dir, 7), whole...)
	got, err := Read(dir, 7)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]Record{{Format: Format, Version: "1.0", Event: Begin, From: 1, To: 7, Reason: "upgrade", Engine: "containerd"}}, whole...)
	for i := range want {
		want[i].Time = noon
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if info, err := os.Stat(path(dir, 7)); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestVerdicts(t *testing.T) {
	for i, c := range []struct {
		events           []Event
		ended, committed bool
	}{
		{nil, false, false},
		{[]Event{Begin, Intent, Done}, false, false},
		{[]Event{Begin, Intent, Done, Commit}, false, true},
		{[]Event{Begin, Commit, End}, true, true},
		{[]Event{Begin, Intent, Undo, Undone, End}, true, false},
	} {
		var records []Record
		for _, e := range c.events {
			records = append(records, Record{Event: e})
		}
		if Ended(records) != c.ended || HasCommitted(records) != c.committed {
			t.Errorf("%d: %v: ended %v, committed %v", i, c.events, Ended(records), HasCommitted(records))
		}
	}
}

const (
	begin  = `{"format":1,"kollet":"1.0","time":"2026-01-02T12:00:00Z","event":"begin","from":1,"to":7}` + "\n"
	intent = `{"time":"2026-01-02T12:00:00Z","event":"intent","step":{"kind":"pull"}}` + "\n"
	end    = `{"time":"2026-01-02T12:00:00Z","event":"end","outcome":"discarded"}` + "\n"
	alone  = `{"format":1,"kollet":"1.0","time":"2026-01-02T12:00:00Z","event":"end","outcome":"discarded"}` + "\n"
)

// Journals as crashes and people leave them.
func TestDamage(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		records int
		whole   int
		damaged string // number of the line
	}{
		"empty":                    {"", 0, 0, ""},
		"torn first line":          {begin[:20], 0, 0, ""},
		"whole":                    {begin + intent, 2, len(begin + intent), ""},
		"torn last line":           {begin + intent + intent[:9], 2, len(begin + intent), ""},
		"last line but its end":    {begin + intent[:len(intent)-1], 1, len(begin), ""},
		"blocks never written":     {begin + strings.Repeat("\x00", 512), 1, len(begin), ""},
		"an end alone":             {alone, 1, len(alone), ""},
		"torn line in the middle":  {begin + intent[:9] + "\n" + end, 0, 0, "2"},
		"two records on a line":    {begin + intent[:9] + intent, 0, 0, "2"},
		"empty line":               {begin + "\n" + end, 0, 0, "2"},
		"null":                     {begin + "null\n", 0, 0, "2"},
		"no event":                 {begin + "{}\n", 0, 0, "2"},
		"beginning lost":           {intent + end, 0, 0, "1"},
		"beginning without an aim": {`{"event":"begin"}` + "\n", 0, 0, "1"},
		"no step":                  {begin + `{"event":"done"}` + "\n", 0, 0, "2"},
		"cut over of nothing":      {begin + `{"event":"done","step":{"kind":"cut-over"}}` + "\n", 0, 0, "2"},
		"services of a pull":       {begin + `{"event":"done","step":{"kind":"pull","services":["a"]}}` + "\n", 0, 0, "2"},
		"a warning of nothing":     {begin + `{"event":"warning","step":{"kind":"pull"}}` + "\n", 0, 0, "2"},
		"an end without outcome":   {begin + `{"event":"end"}` + "\n", 0, 0, "2"},
		"two journals in one":      {begin + begin, 0, 0, "2"},
		"binary":                   {"\xff\xfe\n", 0, 0, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(path(dir, 7), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			records, whole, err := read(path(dir, 7))
			if c.damaged != "" {
				if want := path(dir, 7) + ":" + c.damaged + ": damaged record"; err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
				if _, _, err := Reopen(dir, 7, "1.1", clock); err == nil {
					t.Error("it was opened again")
				}
				if data, err := os.ReadFile(path(dir, 7)); err != nil || string(data) != c.text {
					t.Errorf("it was changed: %q, %v", data, err)
				}
				return
			}
			if err != nil || len(records) != c.records || whole != int64(c.whole) {
				t.Errorf("%d records, %d bytes whole, %v", len(records), whole, err)
			}
		})
	}
	if _, err := Read(t.TempDir(), 7); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

// What is no file is not read, and what is no journal is not read without end.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(unix.Mkfifo(path(dir, 6), 0o600), os.WriteFile(path(dir, 7), nil, 0o600), os.Truncate(path(dir, 7), 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	for number, want := range map[int]string{6: " is a FIFO, not a regular file", 7: " is larger than 64 MiB"} {
		_, err := Read(dir, number)
		if _, damaged := errors.AsType[*format.DamagedError](err); !damaged || err.Error() != "read the journal: "+path(dir, number)+want+"; "+ofDamaged {
			t.Errorf("got %v", err)
		}
	}
}

// What follows on a torn line stands on a line of its own.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	for _, torn := range []string{"", intent[:9], intent[:len(intent)-1], "\x00\x00"} {
		if err := os.WriteFile(path(dir, 7), []byte(begin+torn), 0o600); err != nil {
			t.Fatal(err)
		}
		j, records, err := Reopen(dir, 7, "1.1", clock)
		if err != nil || len(records) != 1 || records[0].From != 1 {
			t.Fatalf("torn %q: %v, %v", torn, records, err)
		}
		add(t, j, Record{Event: Undo, Step: stage}, Record{Event: End, Outcome: Discarded})
		j.Close()
		if got, err := Read(dir, 7); err != nil || len(got) != 3 || got[1].Event != Undo || !Ended(got) {
			t.Errorf("torn %q: %v, %v", torn, got, err)
		}
	}
	if _, _, err := Reopen(dir, 8, "1.1", clock); err == nil {
		t.Error("a journal that is not there was opened")
	}
}

// The first record of a journal says its format and who writes it, whatever
// record that is: recovery ends a journal that a crash left empty.
func TestEmptyJournalEnds(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(path(dir, 7), []byte(begin[:9]), 0o600); err != nil {
		t.Fatal(err)
	}
	j, records, err := Reopen(dir, 7, "1.1", clock)
	if err != nil || len(records) > 0 {
		t.Fatalf("%v, %v", records, err)
	}
	defer j.Close()
	add(t, j, Record{Event: End, Outcome: Discarded})
	got, err := Read(dir, 7)
	if err != nil || len(got) != 1 || !Ended(got) || got[0].Format != Format || got[0].Version != "1.1" {
		t.Errorf("%+v, %v", got, err)
	}
}

// What another version wrote is refused, and not changed.
func TestUnknown(t *testing.T) {
	const v9 = `{"format":1,"kollet":"9.0","event":"begin","to":7}` + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"format":         {`{"format":9,"kollet":"9.0","event":{"begin":7}}` + "\n" + `{"step":{"kind":"stage"}}` + "\n" + `{"step":9}` + "\n", ":1: unknown format 9 (last step: stage), written by kollet 9.0; use that version or a newer one"},
		"no format":      {`{"event":"begin","from":1,"to":7}` + "\n" + `{"event":"intent","step":"cut over a, b"}` + "\n", ":1: no format number (last step: cut over a, b), written by an unknown version of kollet; use the version that wrote it"},
		"event":          {v9 + `{"event":"pause"}` + "\n", `:2: unknown event "pause", written by kollet 9.0; use that version or a newer one`},
		"step":           {v9 + intent + `{"event":"intent","step":{"kind":"drain"}}` + "\n" + intent, `:3: unknown step "drain" (last step: pull), written by kollet 9.0; use that version or a newer one`},
		"outcome":        {v9 + `{"event":"end","outcome":"odd"}` + "\n", `:2: unknown outcome "odd", written by kollet 9.0; use that version or a newer one`},
		"field":          {v9 + intent + `{"event":"commit","by":"x"}` + "\n", `:3: unknown field "by" (last step: pull), written by kollet 9.0; use that version or a newer one`},
		"field of steps": {v9 + `{"event":"done","step":{"kind":"pull","part":2}}` + "\n", `:2: unknown field "part" (last step: pull), written by kollet 9.0; use that version or a newer one`},
		"ended":          {v9 + `{"event":"pause"}` + "\n" + end, `:2: unknown event "pause", written by kollet 9.0; use that version or a newer one`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(path(dir, 7), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var unknown *format.UnknownError
			if _, err := Read(dir, 7); !errors.As(err, &unknown) || err.Error() != path(dir, 7)+c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if _, _, err := Reopen(dir, 7, "1.1", clock); !errors.As(err, &unknown) {
				t.Errorf("opened again: %v", err)
			}
			if data, err := os.ReadFile(path(dir, 7)); err != nil || string(data) != c.text {
				t.Errorf("it was changed: %q, %v", data, err)
			}
		})
	}
}

func TestStepText(t *testing.T) {
	for want, c := range map[string]struct {
		step  Step
		event Event
	}{
		"stage":                  {stage, Intent},
		"undo stage":             {stage, Undone},
		"cut over a, b":          {cutOver, Done},
		"cut over a, b (failed)": {cutOver, Failed},
		"undo cut over a, b":     {cutOver, Undo},
		"protect guests":         {Step{Kind: ProtectGuests}, Done},
	} {
		if got := c.step.Text(c.event); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// onFullDisk returns a directory with these files, on a disk that they fill: it has one page.
func onFullDisk(t *testing.T, files map[string]string) string {
	t.Helper()
	needs.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var page = strings.Repeat("x", os.Getpagesize())

// An upgrade that cannot begin leaves nothing that would have to be recovered first.
func TestCreateDiskFull(t *testing.T) {
	dir := onFullDisk(t, map[string]string{"other": page})
	_, err := Create(dir, Record{To: 7}, clock)
	if want := "journal begin: write " + path(dir, 7) + ": no space left on device; free space with `kollet gc`, or by removing files that are not kollet's"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if numbers, err := List(dir); err != nil || len(numbers) > 0 {
		t.Errorf("journals of %d are left (%v)", numbers, err)
	}
}

// A journal without a record is in nobody's way who frees space. One with records stays.
func TestEndDiskFull(t *testing.T) {
	long := begin + strings.Repeat(intent, (len(page)-len(begin))/len(intent))
	for name, c := range map[string]struct {
		files map[string]string
		stays bool
	}{
		"empty":        {map[string]string{"000007.jsonl": "", "other": page}, false},
		"with records": {map[string]string{"000007.jsonl": long}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := onFullDisk(t, c.files)
			j, _, err := Reopen(dir, 7, "1.1", clock)
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			err = j.End(Discarded)
			if c.stays != errors.Is(err, unix.ENOSPC) || !c.stays && err != nil || c.stays && !strings.HasSuffix(err.Error(), "; free space with `kollet gc`, or by removing files that are not kollet's") {
				t.Errorf("got %v", err)
			}
			if numbers, err := List(dir); err != nil || c.stays != (len(numbers) > 0) {
				t.Errorf("journals of %d are left (%v)", numbers, err)
			}
		})
	}
}

// A record that did not fit leaves nothing of itself, and the next is readable.
func TestDiskFull(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(size uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
	}
	defer limit(before.Cur)
	dir := t.TempDir()
	j := create(t, dir, 7)
	info, err := os.Stat(path(dir, 7))
	if err != nil {
		t.Fatal(err)
	}
	limit(uint64(info.Size()) + 10)
	if err := j.Append(Record{Event: Commit}); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("got %v", err)
	}
	limit(before.Cur)
	add(t, j, Record{Event: Undo, Step: stage})
	records, err := Read(dir, 7)
	if err != nil || len(records) != 2 || HasCommitted(records) {
		t.Errorf("got %+v, %v", records, err)
	}
}

// Of many who start the same transaction one does.
func TestConcurrentCreate(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 20 {
		wg.Go(func() {
			j, err := Create(dir, Record{To: 7}, clock)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
				j.Close()
			} else if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if records, err := Read(dir, 7); won != 1 || err != nil || len(records) != 1 {
		t.Errorf("%d won, %v, %v", won, records, err)
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"000002.jsonl", "000010.jsonl", "000001.jsonl", "1000000.jsonl", "5.jsonl", "-00001.jsonl", "000000.jsonl", "000003.jsonl.bak", "000004", "notes"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := List(dir); err != nil || !slices.Equal(got, []int{1, 2, 10, 1000000}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := List(filepath.Join(dir, "none")); err != nil || len(got) > 0 {
		t.Errorf("without a directory: %v, %v", got, err)
	}
	notes := filepath.Join(dir, "notes")
	if _, err := List(notes); err == nil || !strings.HasSuffix(err.Error(), "not a directory; move away what is in the place of a directory") {
		t.Errorf("a file: %v", err)
	}
	if _, err := Create(notes, Record{To: 1}, clock); err == nil || !strings.HasSuffix(err.Error(), "not a directory; move away what is in the place of a directory") {
		t.Errorf("below a file: %v", err)
	}
}

// FuzzParse: what is read is a prefix of whole lines, and reading it again
// gives the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", begin + intent + end, begin + intent[:5], end, alone, "\n", "null\n", begin + `{"event":"commit","gaps":{"a":{"ended_ms":1e400}}}` + "\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		records, whole, err := parse("", data)
		if err != nil {
			if records != nil || whole != 0 {
				t.Errorf("%d records and an error", len(records))
			}
			return
		}
		if whole < 0 || whole > int64(len(data)) || strings.Count(string(data[:whole]), "\n") != len(records) || strings.Contains(string(data[whole:]), "\n") {
			t.Fatalf("%d records in %d bytes of %q", len(records), whole, data)
		}
		again, size, err := parse("", data[:whole])
		if err != nil || size != whole || !reflect.DeepEqual(again, records) {
			t.Errorf("again: %v, %d, %v", again, size, err)
		}
		for i, r := range records {
			if r.Event == "" || (r.Event == Begin) != (i == 0) && r.Event != End {
				t.Errorf("record %d is %+v", i, r)
			}
		}
	})
}

// What a failed Append could not remove does not stay before the next record.
func TestAppendRemovesRest(t *testing.T) {
	dir := t.TempDir()
	j := create(t, dir, 7)
	f, err := os.OpenFile(path(dir, 7), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"event":"commit"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	add(t, j, Record{Event: Intent, Step: stage})
	records, err := Read(dir, 7)
	if err != nil || len(records) != 2 || records[1].Event != Intent {
		t.Errorf("%+v, %v", records, err)
	}
}
