package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/configs/report"
)

// maxUnpacked bounds the size of unpacked user-data. No cloud accepts as much.
const maxUnpacked = 8 << 20

// maxDepth is how deep messages may be nested.
const maxDepth = 16

// Read parses user-data in any form that cloud-init or Nova accepts: plain, MIME
// message, gzip, base64. It reports whether the data was in base64. name is used in
// errors.
func Read(name string, data []byte) (*Message, bool, error) {
	m := &Message{Data: data}
	plain, was64 := unbase64(data)
	if was64 {
		m.Data = plain
	}
	if bytes.HasPrefix(plain, []byte("\x1f\x8b")) {
		var err error
		if plain, err = unzip(plain); err != nil {
			return nil, false, fmt.Errorf("%s: unpack: %w", name, err)
		}
		m.Gzip = true
	}
	if len(bytes.TrimSpace(plain)) == 0 {
		return nil, false, fmt.Errorf("%s: the user-data is empty", name)
	}
	if !looksLikeMIME(plain) {
		m.Parts = []Part{{Type: TypeOf(plain), Data: plain}}
		if m.Parts[0].Type == "" {
			return nil, false, fmt.Errorf("%s: not user-data: it is not a MIME message, and it does not start with a line that cloud-init knows, such as #cloud-config or #!/bin/sh", name)
		}
		m.Format = Format(short(m.Parts[0].Type))
		return m, was64, nil
	}
	m.Format, m.plain = Multipart, plain
	message, err := mail.ReadMessage(bytes.NewReader(plain))
	if err != nil {
		return nil, false, fmt.Errorf("%s: read the message's headers: %w", name, err)
	}
	if err := m.walk(header{message.Header.Get}, message.Body, 0); err != nil {
		return nil, false, fmt.Errorf("%s: part %d: %w", name, len(m.Parts)+1, err)
	}
	if len(m.Parts) == 0 {
		return nil, false, fmt.Errorf("%s: the message has no parts; it does not contain its boundary", name)
	}
	return m, was64, nil
}

// unbase64 decodes base64 in one or more lines, and reports whether data was base64.
func unbase64(data []byte) ([]byte, bool) {
	compact := bytes.Join(bytes.Fields(data), nil)
	plain, err := base64.StdEncoding.DecodeString(string(compact))
	if err != nil || len(plain) == 0 {
		return data, false
	}
	return plain, true
}

func unzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err == nil && len(plain) > maxUnpacked {
		err = fmt.Errorf("more than %d bytes", maxUnpacked)
	}
	return plain, err
}

// header is the headers of a message or of one of its parts.
type header struct{ get func(string) string }

// walk adds the parts of an entity to the message (RFC 2046, 5.1).
func (m *Message) walk(h header, body io.Reader, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("messages are nested more than %d deep", maxDepth)
	}
	kind, params := "text/plain", map[string]string{}
	if value := h.get("Content-Type"); value != "" {
		var err error
		if kind, params, err = mime.ParseMediaType(value); err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
			return fmt.Errorf("Content-Type %q: %w", value, err)
		}
	}
	if !strings.HasPrefix(kind, "multipart/") {
		return m.leaf(h, kind, params, body)
	}
	if params["boundary"] == "" {
		return errors.New("a multipart message without a boundary")
	}
	r := multipart.NewReader(body, params["boundary"])
	for {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := m.walk(header{part.Header.Get}, part, depth+1); err != nil {
			return err
		}
	}
}

func (m *Message) leaf(h header, kind string, params map[string]string, body io.Reader) error {
	switch strings.ToLower(strings.TrimSpace(h.get("Content-Transfer-Encoding"))) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	data, err := io.ReadAll(body)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the message is truncated; get it again")
	}
	if err != nil {
		return err
	}
	p := Part{Type: kind, Data: data, Merge: h.get("Merge-Type")}
	if p.Merge == "" {
		p.Merge = h.get("X-Merge-Type")
	}
	if strings.Contains(kind, "gzip") {
		if p.Data, err = unzip(data); err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
	}
	if kind == "text/plain" || kind == "text/x-not-multipart" || strings.Contains(kind, "gzip") {
		if found := TypeOf(p.Data); found != "" { // as cloud-init does
			p.Type = found
		}
	}
	if _, disposition, err := mime.ParseMediaType(h.get("Content-Disposition")); err == nil {
		p.Name = disposition["filename"]
	}
	if p.Name == "" {
		p.Name = params["name"]
	}
	m.Parts = append(m.Parts, p)
	return nil
}

// Written describes a file that a cloud-config writes, without its content.
type Written struct {
	Path        string `json:"path" yaml:"path"`
	Owner       string `json:"owner,omitempty" yaml:"owner"`
	Permissions string `json:"permissions,omitempty" yaml:"permissions"`
	Size        int    `json:"size" yaml:"-"`

	text string // the content, as encoded in the cloud-config
}

// filesOf returns the files that a cloud-config writes and the number of its
// commands.
func filesOf(data []byte) (files []Written, commands int) {
	var c struct {
		WriteFiles []struct {
			Written  `yaml:",inline"`
			Encoding string    `yaml:"encoding"`
			Content  yaml.Node `yaml:"content"`
		} `yaml:"write_files"`
		RunCommand []yaml.Node `yaml:"runcmd"`
	}
	_ = yaml.Unmarshal(data, &c) // what it can decode is reported
	for _, f := range c.WriteFiles {
		f.text = f.Content.Value
		f.Size = len(f.text)
		if plain, ok := unbase64([]byte(f.Content.Value)); ok && strings.Contains(f.Encoding, "b") {
			f.Size = len(plain)
		}
		files = append(files, f.Written)
	}
	return files, len(c.RunCommand)
}

// Problems returns what cloud-init would reject in each part.
func (m *Message) Problems(name string) error {
	var problems report.Problems
	for i, p := range m.Parts {
		if known := ParseType(p.Type); known == "" {
			continue
		}
		p.Name = fmt.Sprintf("%s: part %d (%s)", name, i+1, p.Name)
		if len(m.Parts) == 1 && m.Format != Multipart {
			p.Name = name
		}
		p.check(&problems)
	}
	return problems.Err()
}
