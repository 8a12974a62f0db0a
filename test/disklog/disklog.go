// Package disklog reads the log that QEMU's driver blklogwrites keeps of the writes to a
// disk, and writes them again, up to where a power loss may have cut them off. The format is
// that of Linux's dm-log-writes (Documentation/admin-guide/device-mapper/log-writes.rst): a
// sector that describes the log, then one for each write, each followed by its data.
package disklog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

const (
	magic   = 0x6a736677736872
	version = 1
	sector  = 512 // the unit of addresses and sizes
)

// Flags of a write. Others do not come from a loop device.
const (
	flush   = 1 << 0 // all earlier ones are on stable storage when it is done
	discard = 1 << 2 // it has no data; the disk may forget what is there
)

// write is one write to the disk, or a flush, which writes nothing.
type write struct {
	at, size int64 // on the disk, in bytes
	data     int64 // where its data is in the log
	flags    uint64
}

// Log has all writes to a disk, in the order in which the disk got them. Each was done
// before the next began.
type Log struct {
	file   *os.File
	writes []write
}

// header is the first sector, as far as it has content.
type header struct {
	Magic, Version, Writes uint64
	Sector                 uint32
}

// Open reads what the log at path says about its writes.
func Open(path string) (*Log, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l := &Log{file: f}
	if err := l.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("read the log of a disk's writes: %w", err), f.Close())
	}
	return l, nil
}

// Count returns how many writes the log at path had when the disk was flushed last.
func Count(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h, err := readHeader(f)
	return int(h.Writes), err
}

func readHeader(f *os.File) (header, error) {
	var h header
	err := binary.Read(io.NewSectionReader(f, 0, sector), binary.LittleEndian, &h)
	if err == nil && (h.Magic != magic || h.Version != version || h.Sector != sector) {
		err = fmt.Errorf("unknown format %x, version %d, with sectors of %d bytes", h.Magic, h.Version, h.Sector)
	}
	return h, err
}

func (l *Log) read() error {
	h, err := readHeader(l.file)
	if err != nil {
		return err
	}
	end := int64(sector)
	for range h.Writes {
		var entry struct{ Sector, Sectors, Flags, Length uint64 }
		if err := binary.Read(io.NewSectionReader(l.file, end, sector), binary.LittleEndian, &entry); err != nil {
			return err
		}
		if entry.Flags&^(flush|discard) != 0 || entry.Length != 0 {
			return fmt.Errorf("write %d has unknown flags %x", len(l.writes), entry.Flags)
		}
		end += sector
		w := write{at: int64(entry.Sector) * sector, size: int64(entry.Sectors) * sector, data: end, flags: entry.Flags}
		if w.flags&discard == 0 {
			end += w.size
		}
		l.writes = append(l.writes, w)
	}
	return nil
}

// Close closes the log.
func (l *Log) Close() error { return l.file.Close() }

// Len returns the number of writes.
func (l *Log) Len() int { return len(l.writes) }

// Flushes returns after how many writes each flush was done, for those from the first of
// the writes to the last.
func (l *Log) Flushes(first, last int) []int {
	var all []int
	for i := first; i < last; i++ {
		if l.writes[i].flags&flush != 0 {
			all = append(all, i+1)
		}
	}
	return all
}

// Unflushed returns how many of the first n writes may be lost: those after the last flush.
func (l *Log) Unflushed(n int) int {
	lost := 0
	for lost < n && l.writes[n-1-lost].flags&flush == 0 {
		lost++
	}
	return lost
}

// Write writes to a disk again what the log has from one write to another.
func (l *Log) Write(disk io.WriterAt, first, last int) error {
	for _, w := range l.writes[first:last] {
		if err := l.again(disk, w, 0, w.size); err != nil {
			return err
		}
	}
	return nil
}

// Lose writes again a part of the writes from one to another, none of which was flushed: of
// each all, nothing, or some of its sectors.
func (l *Log) Lose(disk io.WriterAt, first, last int, r *rand.Rand) error {
	for _, w := range l.writes[first:last] {
		from, to := int64(0), w.size
		switch n := w.size / sector; r.IntN(4) {
		case 0:
			from = to
		case 1:
			from = sector * r.Int64N(n+1)
		case 2:
			to = sector * r.Int64N(n+1)
		}
		if err := l.again(disk, w, from, to); err != nil {
			return err
		}
	}
	return nil
}

// again writes a part of a write. What is discarded is not changed, which a disk may do.
func (l *Log) again(disk io.WriterAt, w write, from, to int64) error {
	if w.flags&discard != 0 || from >= to {
		return nil
	}
	data := make([]byte, to-from)
	_, err := l.file.ReadAt(data, w.data+from)
	if err == nil {
		_, err = disk.WriteAt(data, w.at+from)
	}
	if err != nil {
		return fmt.Errorf("write again what was written at %d: %w", w.at, err)
	}
	return nil
}
