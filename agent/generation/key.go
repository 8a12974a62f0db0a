package generation

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/wary"
)

// Key is the key of a node's digests. A record is less of a secret than the files that it is
// about, and a file without its secret is shown to people: without a key, they could find a
// short secret by trying.
type Key []byte

const keySize = 32

// keyed begins a digest that was made with a key.
const keyed = "hmac-"

// NewKey makes a key.
func NewKey() Key {
	key := make(Key, keySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// Digest returns a digest of data.
func (k Key) Digest(data []byte) string {
	mac := hmac.New(sha256.New, k)
	mac.Write(data)
	return keyed + hex.EncodeToString(mac.Sum(nil))
}

// Matches reports whether data has a digest, which may be a plain Sum.
func (k Key) Matches(data []byte, digest string) bool {
	if !strings.HasPrefix(digest, keyed) {
		return Sum(data) == digest
	}
	return k.Digest(data) == digest
}

// As returns a service with the digests that another record of it has of the same content. It
// may be of an earlier version, which had no key: this is not a difference.
func (s Service) As(other Service, files []Rendered, key Key) Service {
	s.Files = slices.Clone(s.Files)
	for i, f := range s.Files {
		was := slices.IndexFunc(other.Files, func(o File) bool { return o.Dest == f.Dest })
		now := slices.IndexFunc(files, func(r Rendered) bool { return r.Name == f.Name })
		if was < 0 || now < 0 || f.Directory || other.Files[was].Directory {
			continue
		}
		content := files[now].Content
		if f.Link != "" {
			content = []byte(f.Link)
		}
		if digest := other.Files[was].SHA256; key.Matches(content, digest) {
			s.Files[i].SHA256 = digest
		}
	}
	return s
}

func (s Store) key() string { return filepath.Join(s.Dir, "key") }

// Key reads the node's key; nil if it has none yet.
func (s Store) Key() (Key, error) {
	data, err := wary.ReadFile(s.key(), keySize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && len(data) != keySize {
		err = fmt.Errorf("%s has %d bytes, not %d", s.key(), len(data), keySize)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of this node's digests: %w", err)
	}
	return data, nil
}

// KeepKey writes the node's key. It must be the only one that does: the caller holds the lock.
func (s Store) KeepKey(key Key) error {
	kept, err := s.Key()
	if err != nil {
		return err
	}
	if kept == nil {
		if err := durable.WriteFile(s.key(), key, 0o400); err != nil {
			return fmt.Errorf("write the key of this node's digests: %w", err)
		}
		return nil
	}
	if !bytes.Equal(kept, key) {
		return fmt.Errorf("another kollet process has made %s meanwhile; run the command again", s.key())
	}
	return nil
}
