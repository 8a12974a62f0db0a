package userdata_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/userdata"
)

// FuzzRead checks that Read does not panic or hang, that what it reads can be
// reported and checked, and that its errors name the file.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "#cloud-config\n{}\n", "#!/bin/sh\n", "hello", "#cloud-config\nwrite_files: [{path: /a, content: !!binary x}, 3]\nruncmd: x\n", "#cloud-config\na: &a [*a]\n",
		"Content-Type: multipart/mixed; boundary=x\nMIME-Version: 1.0\n\n--x\nContent-Type: text/cloud-config\n\n#cloud-config\n--x\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n--x--\n",
		"Content-Type: multipart/mixed\nMime-Version: 1\n\n", "mime-version: 1\n\nbody", "Mime-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"a\"\n\n--a\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\n\n--b--\n--a--\n",
		"Mime-Version: 1.0\r\nContent-Type: application/gzip\r\n\r\nnot gzip", "\x1f\x8b\x08", base64.StdEncoding.EncodeToString([]byte("#cloud-config\n{}\n")), "#include\nhttp://[\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, _, err := userdata.Read("file", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "file: ") {
				t.Errorf("an error of no file: %v", err)
			}
			return
		}
		if r := m.Report(); len(r.Parts) != len(m.Parts) {
			t.Errorf("%d parts, %d reported", len(m.Parts), len(r.Parts))
		}
		if err := m.Problems("file"); err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "file:") {
					t.Errorf("a problem of no file: %q", line)
				}
			}
		}
	})
}

// Decompression bombs and deeply nested messages are refused.
func TestHostile(t *testing.T) {
	deep := "MIME-Version: 1.0\n"
	for i := range 100 {
		b := strings.Repeat("x", i+1)
		deep += "Content-Type: multipart/mixed; boundary=" + b + "\n\n--" + b + "\n"
	}
	for name, data := range map[string][]byte{"bomb": bomb(t), "deep": []byte(deep)} {
		if _, _, err := userdata.Read(name, data); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func bomb(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for range 9 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
