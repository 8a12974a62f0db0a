// Package redact keeps secrets out of everything that people read. A Redactor
// knows the secrets of a node and replaces them by placeholders, in every form in
// which a template, an engine or a service writes them. Mask hides values that
// look like passwords, without knowing any secret.
//
// # What a Redactor finds
//
// Of each secret with at least four characters it finds the value, the value
// without surrounding space, the value on one line as kollet's own messages have
// it, and these forms of all three:
//
//   - quoted by Go, JSON (with HTML characters escaped or not, and in ASCII
//     only) or Python
//   - escaped for a URL (query, path, user information; with %20 or + for a
//     space; with digits in either case), for HTML, JavaScript, a shell or
//     oslo.config
//   - in base64 (standard and URL, padded or not), also within the base64 of a
//     longer text, and in hexadecimal
//   - any of these quoted again, as in an error about an error
//   - in upper or lower case; its SHA-256 sum; decoded, if it is base64
//   - each line of a secret that has several, as indented text has them
//
// Learn adds other texts that a template made from a secret, such as parts of it.
//
// # What it does not find
//
// It does not find secrets of fewer than four characters, which occur in ordinary
// words, or parts of a secret other than lines and what Learn was told. Within
// longer base64, the first and last character may remain, because they also
// depend on the text before and after the secret.
package redact

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
)

// shortest is the length in bytes from which a form is searched for. Shorter
// ones are parts of words that have nothing to do with the secret.
const shortest = 4

// Placeholder returns what replaces a secret.
func Placeholder(name string) string { return "<secret " + name + ">" }

// Redactor replaces secrets by placeholders. It is safe for concurrent use. A
// nil Redactor knows no secrets.
type Redactor struct {
	mu    sync.RWMutex
	forms map[prefix][]form // by how their text begins, the longest first
	texts map[string]bool   // of all forms
	pairs [1 << 16 / 64]uint64
}

// prefix is how a form begins. Looking it up at each position of a text finds
// the few forms that may be there; pairs has a bit for each two bytes with which
// any form begins, and spares most of the look-ups.
type prefix [shortest]byte

// pair returns the word of pairs, and the bit in it, for the start of a text.
func pair(text string) (word int, bit uint64) {
	n := uint16(text[0])<<8 | uint16(text[1])
	return int(n / 64), 1 << (n % 64)
}

// form is one way to write a secret.
type form struct {
	text, name string
	whole      bool // the secret can be read back from the text
}

// New returns a Redactor for secrets, values by name.
func New(secrets map[string]string) *Redactor {
	r := &Redactor{forms: map[prefix][]form{}, texts: map[string]bool{}}
	names := slices.Sorted(maps.Keys(secrets))
	for _, name := range names {
		// Placeholders are forms too, so that a secret whose value is part of a
		// placeholder does not change it.
		r.add(form{text: Placeholder(name), name: name})
	}
	var forms []form
	for _, name := range names {
		for _, f := range formsOf(secrets[name]) {
			f.name = name
			forms = append(forms, f)
		}
	}
	// If two secrets share a form, it belongs to the one that can be read from
	// it, else to the first by name.
	for _, whole := range []bool{true, false} {
		for _, f := range forms {
			if f.whole == whole {
				r.add(f)
			}
		}
	}
	return r
}

func (r *Redactor) add(f form) {
	if len(f.text) < shortest || r.texts[f.text] {
		return
	}
	r.texts[f.text] = true
	key := prefix([]byte(f.text[:shortest]))
	list := r.forms[key]
	at, _ := slices.BinarySearchFunc(list, f, func(a, b form) int { return cmp.Compare(len(b.text), len(a.text)) })
	r.forms[key] = slices.Insert(list, at, f)
	word, bit := pair(f.text)
	r.pairs[word] |= bit
}

// Text replaces every secret in a text. If forms overlap, one placeholder, with
// the name of the longest, replaces all that they cover.
func (r *Redactor) Text(text string) string {
	if r == nil {
		return text
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out strings.Builder
	done := 0 // end of what is in out
	for m := range r.matches(text) {
		out.WriteString(text[done:m.start])
		out.WriteString(Placeholder(m.name))
		done = m.end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// match is a part of a text that one form, or several overlapping forms, cover.
type match struct {
	start, end int
	form       // the longest of them
}

// matches yields the matches in a text, in order.
func (r *Redactor) matches(text string) func(yield func(match) bool) {
	return func(yield func(match) bool) {
		var open match
		for i := 0; i+shortest <= len(text); i++ {
			f, found := r.at(text[i:])
			if !found {
				continue
			}
			if i < open.end {
				open.end = max(open.end, i+len(f.text))
				if len(f.text) > len(open.text) {
					open.form = f
				}
				continue
			}
			if open.end > 0 && !yield(open) {
				return
			}
			open = match{start: i, end: i + len(f.text), form: f}
		}
		if open.end > 0 {
			yield(open)
		}
	}
}

// at returns the longest form that a text begins with.
func (r *Redactor) at(text string) (form, bool) {
	if word, bit := pair(text); r.pairs[word]&bit == 0 {
		return form{}, false
	}
	for _, f := range r.forms[prefix([]byte(text[:shortest]))] {
		if strings.HasPrefix(text, f.text) {
			return f, true
		}
	}
	return form{}, false
}

// In returns the sorted names of the secrets that can be read from a text. It
// ignores hash sums, lines, other case and what was learned.
func (r *Redactor) In(text string) []string {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	found := map[string]bool{}
	for i := 0; i+shortest <= len(text); i++ {
		for _, f := range r.forms[prefix([]byte(text[i:i+shortest]))] {
			if f.whole && strings.HasPrefix(text[i:], f.text) {
				found[f.name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Learn records that made was made from the given texts. If one of them contains
// a secret, Text and Error replace made too from then on.
func (r *Redactor) Learn(made string, from ...string) {
	if r == nil || len(made) < shortest || slices.Contains(from, made) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range from {
		for m := range r.matches(text) {
			r.add(form{text: made, name: m.name})
			r.add(form{text: strings.TrimSpace(made), name: m.name})
			return
		}
	}
}

// Error returns err with secrets replaced in its text. errors.Is and errors.As
// still find what err wraps. An error without a secret is returned as it is.
func (r *Redactor) Error(err error) error {
	if r == nil || err == nil {
		return err
	}
	text := err.Error()
	redacted := r.Text(text)
	if redacted == text {
		return err
	}
	return redactedError{redacted, err}
}

// redactedError has the text without secrets of an error that it wraps.
type redactedError struct {
	text string
	err  error
}

func (e redactedError) Error() string { return e.text }
func (e redactedError) Unwrap() error { return e.err }
