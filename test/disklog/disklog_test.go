package disklog

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// entry is a write as a log has it.
type entry struct {
	sector, flags uint64
	data          string // one letter for each sector
}

// written writes a log, as QEMU does.
func written(t *testing.T, entries ...entry) string {
	t.Helper()
	var log bytes.Buffer
	put := func(sectorOf any, data string) {
		var first [sector]byte
		_, err := binary.Encode(first[:], binary.LittleEndian, sectorOf)
		check(t, err)
		log.Write(first[:])
		for _, letter := range data {
			log.WriteString(strings.Repeat(string(letter), sector))
		}
	}
	put(header{Magic: magic, Version: version, Writes: uint64(len(entries)), Sector: sector}, "")
	for _, e := range entries {
		size := len(e.data)
		if e.flags&discard != 0 {
			size = 2
		}
		put([]uint64{e.sector, uint64(size), e.flags, 0}, e.data)
	}
	path := filepath.Join(t.TempDir(), "log")
	check(t, os.WriteFile(path, log.Bytes(), 0o600))
	return path
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, entries ...entry) *Log {
	t.Helper()
	l, err := Open(written(t, entries...))
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	return l
}

// disk returns one letter for each sector of a disk that a function writes.
func disk(t *testing.T, write func(*os.File) error) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	check(t, err)
	defer f.Close()
	check(t, f.Truncate(6*sector))
	check(t, write(f))
	text, err := os.ReadFile(f.Name())
	check(t, err)
	var letters strings.Builder
	for one := range slices.Chunk(text, sector) {
		letter := max(one[0], '.')
		if strings.Trim(string(one), string(one[:1])) != "" {
			letter = '!'
		}
		letters.WriteByte(letter)
	}
	return letters.String()
}

var some = []entry{
	{sector: 0, data: "aaaa"},
	{sector: 1, data: "b"},
	{flags: flush},
	{sector: 4, flags: discard},
	{sector: 3, data: "cc"},
	{sector: 5, data: "d"},
	{flags: flush},
	{flags: flush},
}

func TestWrite(t *testing.T) {
	l := open(t, some...)
	for n, want := range []string{"......", "aaaa..", "abaa..", "abaa..", "abaa..", "abacc.", "abaccd", "abaccd", "abaccd"} {
		if got := disk(t, func(f *os.File) error { return l.Write(f, 0, n) }); got != want {
			t.Errorf("after %d writes the disk has %s, want %s", n, got, want)
		}
	}
}

func TestFlushes(t *testing.T) {
	l := open(t, some...)
	if got, want := l.Flushes(0, l.Len()), []int{3, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("flushes after %v, want %v", got, want)
	}
	if got, want := l.Flushes(3, 7), []int{7}; !slices.Equal(got, want) {
		t.Errorf("flushes after %v, want %v", got, want)
	}
	for n, want := range []int{0, 1, 2, 0, 1, 2, 3, 0, 0} {
		if got := l.Unflushed(n); got != want {
			t.Errorf("of %d writes %d are not flushed, want %d", n, got, want)
		}
	}
}

// What is lost of each write depends on no other, so all combinations come.
func TestLose(t *testing.T) {
	l := open(t, entry{sector: 0, data: "ab"}, entry{sector: 4, data: "c"})
	found := map[string]bool{}
	for seed := range uint64(200) {
		found[disk(t, func(f *os.File) error { return l.Lose(f, 0, 2, rand.New(rand.NewPCG(seed, 0))) })] = true
	}
	for _, want := range []string{"......", "a.....", ".b....", "ab....", "....c.", "a...c.", ".b..c.", "ab..c."} {
		if !found[want] {
			t.Errorf("no loss left %s", want)
		}
		delete(found, want)
	}
	for other := range found {
		t.Errorf("a loss left %s", other)
	}
}

func TestUnknown(t *testing.T) {
	for name, change := range map[string]func(log []byte) []byte{
		"another file":    func(log []byte) []byte { log[0]++; return log },
		"another version": func(log []byte) []byte { log[8]++; return log },
		"longer sectors":  func(log []byte) []byte { log[25] = 16; return log },
		"another flag":    func(log []byte) []byte { log[sector+16] = 1 << 3; return log },
		"cut off":         func(log []byte) []byte { return log[:2*sector] },
		"empty":           func([]byte) []byte { return nil },
	} {
		path := written(t, entry{data: "a"}, entry{flags: flush})
		log, err := os.ReadFile(path)
		check(t, err)
		check(t, os.WriteFile(path, change(log), 0o600))
		if _, err := Open(path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
