package userdata

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Message is user-data as a server receives it.
type Message struct {
	Data   []byte
	Parts  []Part
	Format Format
	Gzip   bool

	plain []byte // unpacked data of a message that Read parsed
}

// Encoded returns the length in base64, which Nova's API expects.
func (m *Message) Encoded() int { return base64.StdEncoding.EncodedLen(len(m.Data)) }

// encode returns parts in a format. Equal parts give equal bytes: there are no
// dates, and the boundary is a hash of the content.
func encode(parts []Part, format Format, compress bool) *Message {
	m := &Message{Parts: parts, Format: format, Gzip: compress}
	if format == CloudConfig {
		m.Data = parts[0].Data
	} else {
		m.Data = compose(parts)
	}
	if compress {
		m.Data = zip(m.Data)
	}
	return m
}

func zip(data []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // writing to memory at a valid level cannot fail
	}
	return b.Bytes()
}

// compose returns a multipart message (RFC 2046, 5.1). cloud-init recognises it
// by Mime-Version within the first 4096 bytes.
func compose(parts []Part) []byte {
	line := boundary(parts)
	var b bytes.Buffer
	fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=%q\nMIME-Version: 1.0\n", line)
	for _, p := range parts {
		fmt.Fprintf(&b, "\n--%s\n", line)
		p.write(&b)
	}
	fmt.Fprintf(&b, "\n--%s--\n", line)
	return b.Bytes()
}

func (p Part) write(b *bytes.Buffer) {
	if strings.HasPrefix(p.Type, "multipart/") { // a nested message, with its own headers
		b.Write(p.Data)
		return
	}
	fmt.Fprintf(b, "Content-Type: %s", p.Type)
	if strings.HasPrefix(p.Type, "text/") {
		b.WriteString(`; charset="utf-8"`)
	}
	b.WriteString("\nMIME-Version: 1.0\n")
	fmt.Fprintf(b, "Content-Disposition: attachment; filename=%q\n", p.Name)
	if p.Merge != "" {
		fmt.Fprintf(b, "Merge-Type: %s\n", p.Merge)
	}
	if sevenBit(p.Data) {
		b.WriteString("Content-Transfer-Encoding: 7bit\n\n")
		b.Write(p.Data)
		return
	}
	b.WriteString("Content-Transfer-Encoding: base64\n\n")
	text := base64.StdEncoding.EncodeToString(p.Data)
	for len(text) > 76 {
		b.WriteString(text[:76] + "\n")
		text = text[76:]
	}
	b.WriteString(text)
}

// sevenBit reports whether data needs no transfer encoding (RFC 2045, 2.7).
func sevenBit(data []byte) bool {
	for line := range bytes.Lines(data) {
		if len(line) > 998 {
			return false
		}
	}
	return !bytes.ContainsFunc(data, func(r rune) bool { return r > '~' || r < ' ' && r != '\n' && r != '\t' })
}

// boundary returns a line that occurs in none of the parts.
func boundary(parts []Part) string {
	sum := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(sum, "%q %q %q %d\n", p.Type, p.Name, p.Merge, len(p.Data))
		sum.Write(p.Data)
	}
	return "kollet-" + hex.EncodeToString(sum.Sum(nil)[:16])
}

// fits returns an error with remedies if the message is longer than the limit.
func (m *Message) fits(limit int) error {
	if limit == 0 || m.Encoded() <= limit {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the user-data is too large: %d bytes base64-encoded, limit %d", m.Encoded(), limit)
	if limit == NovaLimit {
		b.WriteString(" (Nova)")
	}
	small := encode(m.Parts, m.Format, true)
	switch {
	case m.Gzip:
	case small.Encoded() <= limit:
		fmt.Fprintf(&b, "; %d with --gzip", small.Encoded())
	default:
		fmt.Fprintf(&b, "; still %d with --gzip", small.Encoded())
	}
	b.WriteString("\n  put some of the largest files into the image, or let the node fetch them with an include file:")
	for _, piece := range largest(m.Parts, m.Gzip) {
		fmt.Fprintf(&b, "\n  %8d  %s", piece.size, piece.name)
	}
	return fmt.Errorf("%s", b.String())
}

// piece is something that could be omitted.
type piece struct {
	name string
	size int
}

// largest returns parts and files of cloud-configs, largest first. Sizes are
// compressed if the message will be.
func largest(parts []Part, compress bool) []piece {
	size := func(data []byte) int {
		if compress {
			return len(zip(data))
		}
		return len(data)
	}
	var all []piece
	for _, p := range parts {
		if p.Type != CloudConfigType {
			all = append(all, piece{"part " + p.Name, size(p.Data)})
			continue
		}
		files, _ := filesOf(p.Data)
		rest := size(p.Data)
		for _, f := range files {
			n := size([]byte(f.text))
			all = append(all, piece{"file " + f.Path, n})
			rest -= n
		}
		all = append(all, piece{"part " + p.Name + " without its files", max(rest, 0)})
	}
	slices.SortStableFunc(all, func(a, b piece) int { return cmp.Compare(b.size, a.size) })
	return all[:min(len(all), 8)]
}
