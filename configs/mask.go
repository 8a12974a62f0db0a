package configs

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/kollet/kollet/configs/ini"
)

const masked = "<masked>"

// placeholder stands for a secret where people read.
func placeholder(name string) string { return "<secret " + name + ">" }

// shortest is the length from which a secret's value is looked for in text. A
// shorter one is found in words that have nothing to do with it.
const shortest = 4

// newHider returns a function that puts placeholders where the text has a
// secret's value, as it is or in one of the forms it is written in to files.
func newHider(secrets map[string]string) func(string) string {
	type pair struct{ old, new string }
	var keep, hide []pair
	for _, name := range sorted(secrets) {
		keep = append(keep, pair{placeholder(name), placeholder(name)})
		value := secrets[name]
		if len(value) < shortest {
			continue
		}
		for _, form := range []string{
			value, strings.TrimSpace(value), escapeURL(value), url.QueryEscape(value), url.PathEscape(value),
			base64.StdEncoding.EncodeToString([]byte(value)), strings.ReplaceAll(value, "$", `\$`), strings.ReplaceAll(value, "$", "$$"),
		} {
			if len(form) >= shortest {
				hide = append(hide, pair{form, placeholder(name)})
			}
		}
	}
	// The Replacer tries pairs in order at each place and never looks again at
	// what it wrote: the longest value wins, and no placeholder is torn apart
	// by a secret whose value is part of its text.
	slices.SortStableFunc(hide, func(a, b pair) int { return len(b.old) - len(a.old) })
	var words []string
	for _, p := range append(keep, hide...) {
		words = append(words, p.old, p.new)
	}
	return strings.NewReplacer(words...).Replace
}

const placeholderPattern = `<secret [^<>\n]*>`

var (
	secretKey = regexp.MustCompile(`(?i)^(?:.*[_.-])?(?:password|passwd|passphrase|secret|token|keys?|credentials?)$`)
	flag      = regexp.MustCompile(`(?i)^(?:|true|false|yes|no|on|off|none)$`)
	// One or several credentials in a URL: rabbit://u:p@h1,u:p@h2/.  Up to the
	// last @, because nobody escapes the ones in a password.
	urlPassword   = regexp.MustCompile(`(://(?:` + placeholderPattern + `|[^\s:/@])*:)((?:` + placeholderPattern + `|\S)*)@`)
	onlySecrets   = regexp.MustCompile(`^` + placeholderPattern + `(?:@[^\s@,/]+,[^\s:/@,]*:` + placeholderPattern + `)*$`)
	assignment    = regexp.MustCompile(`^(\s*(?:-\s+|export\s+)?["']?([\w.-]+)["']?\s*[=:]\s*)(\S.*)$`)
	privateKeyPEM = regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`)
)

// maskINI masks what looks like a password in an INI file.
func maskINI(f *ini.File) {
	for _, section := range f.Sections {
		for _, key := range section.Keys {
			for i, value := range key.Values {
				key.Values[i] = maskValue(key.Name, value)
			}
		}
	}
}

// maskText masks what looks like a password in any other text.
func maskText(text string) string {
	text = privateKeyPEM.ReplaceAllString(text, "$1\n"+masked+"\n$2")
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		body := strings.TrimRight(line, "\r\n")
		end := line[len(body):]
		if m := assignment.FindStringSubmatch(body); m != nil {
			body = m[1] + maskValue(m[2], m[3])
		} else {
			body = maskURLs(body)
		}
		lines[i] = body + end
	}
	return strings.Join(lines, "")
}

func maskValue(key, value string) string {
	bare := strings.Trim(value, `"', `)
	if secretKey.MatchString(key) && !flag.MatchString(bare) && !onlySecrets.MatchString(bare) {
		return masked
	}
	return maskURLs(value)
}

func maskURLs(text string) string {
	return urlPassword.ReplaceAllStringFunc(text, func(found string) string {
		m := urlPassword.FindStringSubmatch(found)
		if onlySecrets.MatchString(m[2]) {
			return found
		}
		return m[1] + masked + "@"
	})
}
