package redact

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// shortestInBase64 is the length in bytes from which a secret is searched
	// for within longer base64.
	shortestInBase64 = 6
	// shortestPart is the length in bytes from which lines of a secret, and its
	// value in other case, are searched for.
	shortestPart = 8
)

// formsOf returns the forms of a value, without names.
func formsOf(value string) []form {
	if len(value) < shortest {
		return nil
	}
	values := []string{value}
	for _, text := range []string{strings.TrimSpace(value), oneLine(value, " "), oneLine(value, "; ")} {
		if len(text) >= shortest && !slices.Contains(values, text) {
			values = append(values, text)
		}
	}
	var forms []form
	add := func(whole bool, texts ...string) {
		for _, text := range texts {
			forms = append(forms, form{text: text, whole: whole})
		}
	}
	for _, v := range values {
		add(true, v)
		for _, text := range unique(encodings(v)) {
			add(true, text)
			add(true, quotings(text)...)
		}
		add(false, derived(v)...)
	}
	for _, line := range linesOf(value) {
		add(false, line)
		add(false, quotings(line)...)
		add(false, urlEncodings(line)...)
	}
	return forms
}

// oneLine returns a value as kollet's own messages have it: each line's words
// separated by one space, and the lines by separator.
func oneLine(value, separator string) string {
	var lines []string
	for line := range strings.Lines(value) {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return strings.Join(lines, separator)
}

func unique(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// encodings returns the encodings of a value, from which it can be read back.
func encodings(value string) []string {
	digits := hex.EncodeToString([]byte(value))
	return slices.Concat(quotings(value), urlEncodings(value), base64Encodings(value),
		[]string{digits, strings.ToUpper(digits), fmt.Sprintf("% x", value), fmt.Sprintf("% X", value),
			strings.ReplaceAll(value, "%", "%%")}) // ConfigParser, systemd
}

// derived returns what is computed from a value and does not reveal all of it, and
// what it decodes to.
func derived(value string) []string {
	sum := sha256.Sum256([]byte(value))
	digits := hex.EncodeToString(sum[:])
	all := []string{digits, strings.ToUpper(digits)}
	if len(value) >= shortestPart {
		for _, text := range []string{strings.ToUpper(value), strings.ToLower(value)} {
			all = append(append(all, text), encodings(text)...)
		}
	}
	if text, ok := decode(value); ok {
		all = append(append(all, text), encodings(text)...)
	}
	return all
}

var (
	unquoted  = regexp.MustCompile(`^[A-Za-z0-9_.~%+/ -]*$`) // no quoting changes it
	unescaped = regexp.MustCompile(`^[A-Za-z0-9_.~-]*$`)     // a URL has it as it is
)

// quotings returns what a value looks like between quotes, without these.
func quotings(value string) []string {
	if unquoted.MatchString(value) {
		return nil
	}
	backslashes := strings.ReplaceAll(value, `\`, `\\`)
	quoted := strconv.Quote(value)
	ascii := strconv.QuoteToASCII(value)
	return []string{
		quoted[1 : len(quoted)-1],
		ascii[1 : len(ascii)-1],
		jsonString(value, true),
		jsonString(value, false),
		jsonASCII(value),
		strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), // Python between '
		strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), `'`, `\'`), // Python with both
		strings.ReplaceAll(backslashes, `'`, `\'`),
		strings.ReplaceAll(backslashes, `"`, `\"`),
		strings.ReplaceAll(value, `'`, `'\''`),  // shell between '
		strings.ReplaceAll(value, `'`, `'"'"'`), // Python's shlex
		shellDouble.Replace(value),              // shell between "
		strings.ReplaceAll(value, `'`, `''`),    // YAML, SQL
		html.EscapeString(value),                // HTML, XML
		template.HTMLEscapeString(value),        // HTML, as templates escape it
		xmlText.Replace(value),                  // XML, as Python and libvirt escape it
		template.JSEscapeString(value),          // JavaScript
		strings.ReplaceAll(value, "\n", `\n`),   // log lines
		strings.ReplaceAll(value, "\n", "\r\n"), // terminals
		strings.ReplaceAll(value, "\n", " "),    // kollet's own messages
		strings.ReplaceAll(value, "\r\n", "\n"), // text files
		strings.ReplaceAll(value, "$", `\$`),    // oslo.config
		strings.ReplaceAll(value, "$", "$$"),    // oslo.config, Compose
	}
}

var (
	shellDouble = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`")
	xmlText     = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;", `"`, "&quot;", `'`, "&apos;")
)

func jsonString(value string, escapeHTML bool) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(escapeHTML)
	_ = encoder.Encode(value) // a string can always be encoded
	quoted := strings.TrimSuffix(out.String(), "\n")
	return quoted[1 : len(quoted)-1]
}

// jsonASCII is the JSON of Python, which escapes all but ASCII.
func jsonASCII(value string) string {
	var out strings.Builder
	for _, r := range jsonString(value, false) {
		if r < utf8.RuneSelf {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// urlEncodings returns what a value is escaped to in the parts of a URL.
func urlEncodings(value string) []string {
	if unescaped.MatchString(value) {
		return nil
	}
	query := url.QueryEscape(value)
	percent := strings.ReplaceAll(query, "+", "%20")
	var all []string
	for _, text := range []string{
		percent, query, url.PathEscape(value), (&url.URL{Path: value}).EscapedPath(),
		strings.ReplaceAll(percent, "%2F", "/"), // Python's quote
		strings.TrimPrefix(url.UserPassword("", value).String(), ":"),
	} {
		all = append(all, text, lowerEscapes(text))
	}
	return all
}

// lowerEscapes writes the digits of percent escapes in lower case.
func lowerEscapes(text string) string {
	out := []byte(text)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:i+3], bytes.ToLower(out[i+1:i+3]))
			i += 2
		}
	}
	return string(out)
}

// base64Encodings returns the base64 of a value, and what the base64 of a longer
// text has of it: in three alignments, without the characters at either end
// that also depend on the text beside it.
func base64Encodings(value string) []string {
	var all []string
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		padded := encoding.EncodeToString([]byte(value))
		all = append(all, padded, strings.TrimRight(padded, "="))
		if len(value) < shortestInBase64 {
			continue
		}
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), value...))
			first := []int{0, 2, 3}[before]
			last := (before + len(value)) * 8 / 6
			all = append(all, text[first:last])
		}
	}
	return all
}

// decode returns the text that a value encodes in base64.
func decode(value string) (string, bool) {
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if data, err := encoding.DecodeString(value); err == nil && len(data) >= shortestPart {
			return string(data), true
		}
	}
	return "", false
}

// linesOf returns the lines of a value that has several, without the lines that
// begin and end a PEM block, which are not secret.
func linesOf(value string) []string {
	all := strings.FieldsFunc(value, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(all) < 2 {
		return nil
	}
	var lines []string
	for _, line := range all {
		line = strings.TrimSpace(line)
		if len(line) >= shortestPart && !strings.HasPrefix(line, "-----") {
			lines = append(lines, line)
		}
	}
	return lines
}
