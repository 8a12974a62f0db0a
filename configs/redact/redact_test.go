package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kollet/kollet/configs/redact"
)

func TestText(t *testing.T) {
	r := redact.New(map[string]string{
		"rabbit": "hunter2", "short": "abc", "empty": "", "long": "hunter2-and-more", "odd": "a\"b\nc\\d", "word": "secret",
	})
	for text, want := range map[string]string{
		"user:hunter2@host, hunter2":      "user:<secret rabbit>@host, <secret rabbit>",
		"hunter2-and-more":                "<secret long>",
		"hunter2hunter2":                  "<secret rabbit><secret rabbit>",
		"abc abc":                         "abc abc",
		"nothing":                         "nothing",
		"":                                "",
		"hun":                             "hun",
		"raw a\"b\nc\\d":                  "raw <secret odd>",
		fmt.Sprintf("%q", "xa\"b\nc\\dy"): `"x<secret odd>y"`,
		"a secret, <secret rabbit>":       "a <secret word>, <secret rabbit>",
		"\xff\x00hunter2\xff":             "\xff\x00<secret rabbit>\xff",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// kollet's messages have the error of an engine or a service on one line, with its
// words separated by one space (failure.OneLine).
func TestTextOnOneLine(t *testing.T) {
	r := redact.New(map[string]string{"spaces": "my  long\tpass", "lines": "one1\n two2\n\nthree3\n"})
	for text, want := range map[string]string{
		"refused my long pass: no":                "refused <secret spaces>: no",
		fmt.Sprintf("%q", "refused my long pass"): `"refused <secret spaces>"`,
		"got one1; two2; three3; end":             "got <secret lines>; end",
		"got one1 two2 three3 end":                "got <secret lines> end",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Replacing one of two overlapping forms would leave a part of the other.
func TestFormsThatOverlap(t *testing.T) {
	r := redact.New(map[string]string{"a": "onetwo", "b": "twothree!"})
	if got, want := r.Text("x onetwothree! y onetwo y"), "x <secret b> y <secret a> y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r = redact.New(map[string]string{"a": "aaaa"})
	if got, want := r.Text("aaaaaaa b"), "<secret a> b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

const odd = "p@ss/w$rd \"x\" 'y' <&>%+é\U0001F600\\z\tq"

// forms is every form that is named in the package's documentation.
var forms = map[string]func(string) string{
	"raw":                 func(s string) string { return s },
	"trimmed":             strings.TrimSpace,
	"Go":                  strconv.Quote,
	"Go, ASCII":           strconv.QuoteToASCII,
	"JSON":                func(s string) string { data, _ := json.Marshal(s); return string(data) },
	"JSON, HTML":          jsonPlain,
	"JSON, ASCII":         jsonASCII,
	"JSON in Go":          func(s string) string { data, _ := json.Marshal(s); return strconv.Quote(string(data)) },
	"Go in Go":            func(s string) string { return strconv.Quote(strconv.Quote(s)) },
	"query":               url.QueryEscape,
	"path":                url.PathEscape,
	"percent":             func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") },
	"percent, lower case": func(s string) string { return lower(strings.ReplaceAll(url.QueryEscape(s), "+", "%20")) },
	"user information":    func(s string) string { return url.UserPassword("u", s).String() },
	"error about a URL": func(s string) string {
		return (&url.Error{Op: "Get", URL: "http://h/" + url.PathEscape(s), Err: errors.New("x")}).Error()
	},
	"base64":          func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64, URL":     func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64, raw":     func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
	"base64, raw URL": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"hexadecimal":     func(s string) string { return fmt.Sprintf("%x %X % x", s, s, s) },
	"shell":           func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
	"oslo.config":     func(s string) string { return strings.ReplaceAll(s, "$", `\$`) },
	"upper case":      strings.ToUpper,
	"lower case":      strings.ToLower,
	"log lines":       func(s string) string { return "last log lines:\n  | " + s + "\n  | end" },
}

func jsonPlain(s string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s)
	return out.String()
}

// jsonASCII is what Python's json.dumps returns for odd and for ASCII.
func jsonASCII(s string) string {
	return strings.NewReplacer("é", `\u00e9`, "\U0001F600", `\ud83d\ude00`).Replace(jsonPlain(s))
}

func lower(s string) string {
	out := []byte(s)
	for i := range out {
		if out[i] == '%' && i+2 < len(out) {
			out[i+1], out[i+2] = strings.ToLower(s[i+1 : i+3])[0], strings.ToLower(s[i+1 : i+3])[1]
		}
	}
	return string(out)
}

func TestForms(t *testing.T) {
	for _, value := range []string{odd, "plain-Passw0rd", " spaces around ", "tr@iling\n"} {
		r := redact.New(map[string]string{"x": value})
		for name, form := range forms {
			text := form(value)
			got := r.Text("error: " + text + " at host")
			inner := strings.Trim(text, "\"'\n ")
			if strings.Contains(got, inner) || !strings.Contains(got, "<secret x>") {
				t.Errorf("%s of %q: %s", name, value, got)
			}
		}
	}
}

// The base64 of a longer text contains a secret in one of three alignments. At most
// the first and last character, which depend on other text too, may remain.
func TestWithinLongerBase64(t *testing.T) {
	const value = "hunter2$/x-and-more"
	r := redact.New(map[string]string{"x": value})
	for before := range 7 {
		for after := range 7 {
			for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
				text := encoding.EncodeToString([]byte(strings.Repeat("A", before) + value + strings.Repeat("B", after)))
				got := r.Text(text)
				rest := strings.Replace(got, "<secret x>", "", 1)
				if kept := len(rest) - len(encoding.EncodeToString(make([]byte, before+after))); kept > 4 || rest == got {
					t.Errorf("%d before, %d after: %s became %s", before, after, text, got)
				}
			}
		}
	}
}

func TestSeveralLines(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n"
	r := redact.New(map[string]string{"key": key})
	if got := r.Text("x " + key + "y"); got != "x <secret key>y" {
		t.Errorf("got %q", got)
	}
	indented := strings.ReplaceAll(key, "\n", "\n    ")
	if got, want := r.Text(indented), "-----BEGIN PRIVATE KEY-----\n    <secret key>\n    <secret key>\n    -----END PRIVATE KEY-----\n    "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// Other keys and certificates have the same first and last lines.
	if got := r.Text("-----BEGIN PRIVATE KEY-----\nother\n"); strings.Contains(got, "<secret") {
		t.Errorf("got %q", got)
	}
}

func TestIn(t *testing.T) {
	r := redact.New(map[string]string{"a": "Hunter$22", "b": "Correct-Horse", "c": "abc"})
	for text, want := range map[string]string{
		`{"env": {"A": "Hunter$22", "B": "xCorrect-Horsey"}}`: "a b",
		"SHVudGVyJDIy":      "a",
		"Hunter%2422":       "a",
		"hunter$22 HUNTER$": "", // other case is found, and is not the secret
		"abc":               "",
		"<secret a>":        "",
		"":                  "",
	} {
		if got := strings.Join(r.In(text), " "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestLearn(t *testing.T) {
	r := redact.New(map[string]string{"a": "hunter2-and-more"})
	r.Learn("more", "something else")
	r.Learn("and", "hunter2-and-more") // too short
	if got := r.Text("more and"); got != "more and" {
		t.Errorf("got %q", got)
	}
	r.Learn("hunter2-a", "hunter2-and-more", "9")
	r.Learn("A-2RETNUH", "x hunter2-a y") // from what was learned
	if got, want := r.Text("hunter2-a A-2RETNUH hunter2-and-more"), "<secret a> <secret a> <secret a>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := r.In("hunter2-a"); len(got) > 0 {
		t.Errorf("a part counts as the secret: %v", got)
	}
	r.Learn("and nova", "and nova", "hunter2-and-more") // returned unchanged
	if got := r.Text("and nova"); got != "and nova" {
		t.Errorf("got %q", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	r := redact.New(map[string]string{"a": "hunter22"})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r.Learn(fmt.Sprintf("made-%d", i), "hunter22")
			if got := r.Text("hunter22"); got != "<secret a>" {
				t.Errorf("got %q", got)
			}
			r.In("hunter22")
		})
	}
	wg.Wait()
}

// Exit statuses depend on an error's type.
func TestErrorKeepsItsKind(t *testing.T) {
	r := redact.New(map[string]string{"rabbit": "hunter2"})
	cause := &fs.PathError{Op: "open", Path: "/hunter2", Err: fs.ErrNotExist}
	err := r.Error(fmt.Errorf("not healthy: %w", cause))
	if err.Error() != "not healthy: open /<secret rabbit>: file does not exist" {
		t.Errorf("got %v", err)
	}
	if _, ok := errors.AsType[*fs.PathError](err); !ok || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%T hides its cause", err)
	}
	if wrapped := fmt.Errorf("recover: %w", errors.Join(err, nil)); strings.Contains(wrapped.Error(), "hunter2") {
		t.Error(wrapped)
	}
	plain := errors.New("nothing in it")
	if r.Error(plain) != plain || r.Error(nil) != nil {
		t.Error("an error without a secret was changed")
	}
}

func TestNil(t *testing.T) {
	var r *redact.Redactor
	plain := errors.New("text")
	r.Learn("text", "text")
	if r.Text("text") != "text" || r.Error(plain) != plain || r.In("text") != nil {
		t.Error("a nil Redactor changes text")
	}
}

func TestRandomSecrets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		value := make([]byte, 8+random.IntN(24))
		for i := range value {
			value[i] = byte(' ' + random.IntN('~'-' '+1))
		}
		secret := string(value)
		r := redact.New(map[string]string{"x": secret})
		for name, form := range forms {
			text := form(secret)
			if got := r.Text("[" + text + "]"); strings.Contains(got, strings.Trim(text, `"' `)) {
				t.Errorf("%s of %q: %s", name, secret, got)
			}
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("hunter2", "hunter2-and-more", "x hunter2-and-more y")
	f.Add("aaaa", "aaaaa", "aaaaaaaaa")
	f.Add("secret 1", "<secret 2>", "<secret 1>")
	f.Fuzz(func(t *testing.T, one, two, text string) {
		r := redact.New(map[string]string{"1": one, "2": two})
		got := r.Text(text)
		for _, value := range []string{one, two} {
			// Placeholders are not secret, and neither is the text next to them.
			if strings.ContainsAny(value, "<>12 secret") {
				continue
			}
			if len(value) >= 4 && strings.Contains(got, value) {
				t.Errorf("%q is in %q", value, got)
			}
		}
		if r.Error(errors.New(text)).Error() != got {
			t.Errorf("an error of %q has another text than %q", text, got)
		}
	})
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		redact.New(benchmarkSecrets())
	}
}

func BenchmarkText(b *testing.B) {
	r := redact.New(benchmarkSecrets())
	text := strings.Repeat("transport_url = rabbit://openstack:password@10.0.0.1:5672//\n", 200)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Text(text)
	}
}

func benchmarkSecrets() map[string]string {
	secrets := map[string]string{"odd": odd}
	for i := range 20 {
		secrets[strconv.Itoa(i)] = strings.Repeat(string(rune('a'+i)), 40)
	}
	return secrets
}
