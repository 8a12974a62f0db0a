package generation

import (
	"os"
	"strings"
	"testing"
)

// A digest says that a file changed, and nothing to those who do not have the key.
func TestKey(t *testing.T) {
	one, other := NewKey(), NewKey()
	secret := []byte("hunter2")
	digest := one.Digest(secret)
	if digest != one.Digest(secret) || digest == one.Digest([]byte("hunter3")) || digest == other.Digest(secret) || strings.Contains(digest, Sum(secret)) {
		t.Errorf("digests: %s, %s", digest, other.Digest(secret))
	}
	for name, c := range map[string]struct {
		key    Key
		digest string
		want   bool
	}{
		"the same":    {one, digest, true},
		"another key": {other, digest, false},
		"no key":      {nil, digest, false},
		"plain":       {nil, Sum(secret), true},
		"another":     {one, one.Digest([]byte("hunter3")), false},
	} {
		if got := c.key.Matches(secret, c.digest); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A node has one key, which only root can read.
func TestKeepKey(t *testing.T) {
	s := store(t)
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if key, err := s.Key(); key != nil || err != nil {
		t.Fatalf("a new node has the key %x, %v", key, err)
	}
	key := NewKey()
	for range 2 {
		if err := s.KeepKey(key); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := s.Key(); string(kept) != string(key) || err != nil {
		t.Errorf("kept %x, %v", kept, err)
	}
	if info, err := os.Stat(s.key()); err != nil || info.Mode() != 0o400 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := s.KeepKey(NewKey()); err == nil || !strings.Contains(err.Error(), "meanwhile; run the command again") {
		t.Errorf("another key: %v", err)
	}
	if err := os.WriteFile(s.key(), key[1:], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Key(); err == nil || !strings.Contains(err.Error(), "has 31 bytes, not 32") {
		t.Errorf("a damaged key: %v", err)
	}
}
