package redact

import (
	"regexp"
	"strings"
)

// masked replaces what looks like a password and is not a known secret.
const masked = "<masked>"

const placeholderPattern = `<secret [^<>\n]*>`

var (
	secretKey = regexp.MustCompile(`(?i)^(?:.*[_.-])?(?:password|passwd|passphrase|secret|token|keys?|credentials?)$`)
	switches  = regexp.MustCompile(`(?i)^(?:|true|false|yes|no|on|off|none)$`)
	// One or several credentials in a URL, as in rabbit://u:p@h1,u:p@h2/. It
	// matches up to the last @, because passwords may contain unescaped ones.
	urlPassword   = regexp.MustCompile(`(://(?:` + placeholderPattern + `|[^\s:/@])*:)((?:` + placeholderPattern + `|\S)*)@`)
	onlySecrets   = regexp.MustCompile(`^` + placeholderPattern + `(?:@[^\s@,/]+,[^\s:/@,]*:` + placeholderPattern + `)*$`)
	assignment    = regexp.MustCompile(`^(\s*(?:-\s+|export\s+)?["']?([\w.-]+)["']?\s*[=:]\s*)(\S.*)$`)
	privateKeyPEM = regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`)
)

// Mask masks what looks like a password in a text: values of keys such as password
// or token, passwords in URLs, and private keys.
func Mask(text string) string {
	text = privateKeyPEM.ReplaceAllString(text, "$1\n"+masked+"\n$2")
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		body := strings.TrimRight(line, "\r\n")
		end := line[len(body):]
		if m := assignment.FindStringSubmatch(body); m != nil {
			body = m[1] + MaskValue(m[2], m[3])
		} else {
			body = maskURLs(body)
		}
		lines[i] = body + end
	}
	return strings.Join(lines, "")
}

// MaskValue masks the value of a key that is for a password, unless the value is a
// boolean or a placeholder. In other values it masks passwords in URLs.
func MaskValue(key, value string) string {
	bare := strings.Trim(value, `"', `)
	if secretKey.MatchString(key) && !switches.MatchString(bare) && !onlySecrets.MatchString(bare) {
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
