package seed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// Image returns the seed as an ISO 9660 image with Rock Ridge names, because plain
// ISO 9660 has no lower-case letters and hyphens. Equal seeds give equal bytes.
func (s *Seed) Image() ([]byte, error) {
	dir, err := os.MkdirTemp("", "kollet-seed-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the system's temporary directory
	for _, name := range s.Paths() {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, s.Files[name], 0o600); err != nil {
			return nil, err
		}
	}
	m := &memory{}
	iso, err := iso9660.Create(m, 0, 0, sector, dir)
	if err == nil {
		err = iso.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: s.Format.Label()})
	}
	if err != nil {
		return nil, fmt.Errorf("create the ISO image: %w", err)
	}
	normalize(m.data)
	// Pad to whole sectors, and add some for drivers that read ahead (mkisofs -pad).
	return append(m.data, make([]byte, 16*sector+(sector-len(m.data)%sector)%sector)...), nil
}

const sector = 2048

// normalize removes times, owners and modes from an image. The offsets are those of
// ECMA-119 (8.4, 9.1), SUSP 5 and RRIP 4.1.
func normalize(image []byte) {
	for at := 16 * sector; at+sector <= len(image); at += sector {
		volume := image[at : at+sector]
		if volume[0] != 1 { // there is only a primary one
			return
		}
		for field := 813; field < 881; field += 17 { // "not specified"
			copy(volume[field:], "0000000000000000\x00")
		}
		root := volume[156:190]
		copy(root[18:25], epoch)
		directory(image, root)
	}
}

// epoch is 1 January 2000 in directory records (ECMA-119, 9.1.5).
var epoch = []byte{100, 1, 1, 0, 0, 0, 0}

// directory normalizes the records of a directory and of those below it.
func directory(image, record []byte) {
	start := int(binary.LittleEndian.Uint32(record[2:])) * sector
	end := start + int(binary.LittleEndian.Uint32(record[10:]))
	for at := start; at < end; {
		size := int(image[at])
		if size == 0 { // records do not cross the end of a sector
			at += sector - at%sector
			continue
		}
		r := image[at : at+size]
		copy(r[18:25], epoch)
		name := int(r[32])
		if use := 33 + name + (name+1)%2; use < size {
			systemUse(r[use:], r[25]&2 != 0)
		}
		if itself := name == 1 && r[33] <= 1; r[25]&2 != 0 && !itself {
			directory(image, r)
		}
		at += size
	}
}

// systemUse normalizes the Rock Ridge entries of a record.
func systemUse(b []byte, dir bool) {
	for len(b) >= 4 && int(b[2]) >= 4 && int(b[2]) <= len(b) {
		e := b[:b[2]]
		switch {
		case string(e[:2]) == "TF":
			for at := 5; at+7 <= len(e); at += 7 {
				copy(e[at:], epoch)
			}
		case string(e[:2]) == "PX" && len(e) >= 36:
			mode, links := uint32(0o100400), uint32(1)
			if dir {
				mode, links = 0o040500, 2
			}
			for i, value := range []uint32{mode, links, 0, 0} { // then the owner and group
				binary.LittleEndian.PutUint32(e[4+8*i:], value)
				binary.BigEndian.PutUint32(e[8+8*i:], value)
			}
		}
		b = b[b[2]:]
	}
}

// memory is the storage for an image. The library only writes at offsets.
type memory struct {
	backend.Storage // for methods that are never called
	data            []byte
}

func (m *memory) Writable() (backend.WritableFile, error) { return memoryFile{memory: m}, nil }

type memoryFile struct {
	backend.WritableFile
	*memory
}

func (f memoryFile) WriteAt(p []byte, at int64) (int, error) {
	if end := int(at) + len(p); end > len(f.data) {
		f.memory.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	return copy(f.data[at:], p), nil
}

func (f memoryFile) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(f.data).ReadAt(p, at)
}

func (f memoryFile) Close() error                   { return nil }
func (f memoryFile) Stat() (fs.FileInfo, error)     { return nil, fs.ErrInvalid }
func (f memoryFile) Read([]byte) (int, error)       { return 0, io.EOF }
func (f memoryFile) Seek(int64, int) (int64, error) { return 0, fs.ErrInvalid }
