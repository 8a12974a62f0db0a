package configs_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/redact"
)

// transformations has, for each function that a template may call, what it can
// make of a secret. What is whole is a form that redact knows without having
// seen the template, as after a restart.
var transformations = map[string]struct {
	expression string
	whole      bool
}{
	"b64dec":              {`b64dec (printf "%s" (b64enc (secret "x")))`, true},
	"b64enc":              {`b64enc (secret "x")`, true},
	"base":                {`base (secret "x")`, false},
	"cat":                 {`cat "host" (secret "x")`, true},
	"dir":                 {`dir (printf "/%s/x" (secret "x"))`, false}, // as a clean path
	"hostport":            {`hostport (secret "x") 1`, true},
	"html":                {`html (secret "x")`, true},
	"indent":              {`indent 4 (secret "x")`, true},
	"join":                {`join "," (list "nova" (secret "x"))`, true},
	"js":                  {`js (secret "x")`, true},
	"lower":               {`lower (secret "x")`, true},
	"mustFromJson":        {`(mustFromJson (printf "{\"a\": %s}" (toJson (secret "x")))).a`, true},
	"mustRegexFind":       {`mustRegexFind ".{9}" (secret "x")`, false},
	"mustRegexReplaceAll": {`mustRegexReplaceAll "^." (secret "x") "_"`, false},
	"nindent":             {`nindent 2 (secret "x")`, true},
	"oslo":                {`oslo (secret "x")`, true},
	"print":               {`print (secret "x") "!"`, true},
	"printf":              {`printf "%q %x %+q" (secret "x") (secret "x") (secret "x")`, true},
	"println":             {`println (secret "x")`, true},
	"quote":               {`quote (secret "x")`, true},
	"repeat":              {`repeat 2 (secret "x")`, true},
	"replace":             {`replace (trunc 1 (secret "x")) "--" (secret "x")`, false},
	"sha256sum":           {`sha256sum (secret "x")`, true},
	"splitList":           {`first (rest (splitList "|" (printf "a|%s|b" (secret "x"))))`, false},
	"squote":              {`squote (secret "x")`, true},
	"substr":              {`substr 1 10 (secret "x")`, false},
	"toJson":              {`toJson (dict "a" (secret "x"))`, true},
	"toString":            {`toString (secret "x")`, true},
	"toStrings":           {`index (toStrings (list (secret "x"))) 0`, true},
	"trim":                {`trim (secret "x")`, true},
	"trimAll":             {`trimAll "!" (secret "x")`, false},
	"trimPrefix":          {`trimPrefix (trunc 2 (secret "x")) (secret "x")`, false},
	"trimSuffix":          {`trimSuffix (substr 9 99 (secret "x")) (secret "x")`, false},
	"trunc":               {`trunc 9 (secret "x")`, false},
	"upper":               {`upper (secret "x")`, true},
	"urlescape":           {`urlescape (secret "x")`, true},
	"urlquery":            {`urlquery (secret "x")`, true},
	// Several, each of what the one before made.
	"a chain":         {`secret "x" | upper | b64enc | trunc 12 | quote`, false},
	"in longer text":  {`printf "user:%s@host" (secret "x") | b64enc`, true},
	"a variable":      {`$x := substr 2 12 (secret "x") }}{{ upper $x`, false},
	"escaped, quoted": {`secret "x" | urlescape | quote | toJson`, true},
}

// arithmetic makes numbers of numbers, which no secret is put into.
var arithmetic = []string{"add", "add1", "atoi", "div", "int", "int64", "max", "min", "mod", "mul", "mustRegexMatch", "round", "seq", "sub", "until", "untilStep"}

// A new function needs an entry for what it makes of a secret.
func TestEveryFunctionIsKnown(t *testing.T) {
	for _, name := range slices.Concat(configs.Helpers(), configs.Builtins(), []string{"oslo", "hostport", "urlescape"}) {
		_, transforms := transformations[name]
		if !transforms && !slices.Contains(arithmetic, name) && !slices.Contains(configs.Selectors(), name) {
			t.Errorf("%s: add what it makes of a secret to transformations", name)
		}
	}
}

func TestNothingThatATemplateMakesOfASecretIsShown(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 8 {
		secret := make([]byte, 16+random.IntN(24))
		for i := range secret {
			secret[i] = byte('!' + random.IntN('~'-'!'+1))
		}
		for name := range transformations {
			checkTransformation(t, name, string(secret))
			checkTransformation(t, name, "pässwörd \U0001F600 in unicode")
		}
	}
}

func FuzzTransformations(f *testing.F) {
	names := slices.Sorted(maps.Keys(transformations))
	f.Add("hunter2$%&/()=?and<more>", uint8(0))
	f.Add("cGxhaW4gdGV4dCBpbiBiYXNlNjQ=", uint8(9))
	f.Fuzz(func(t *testing.T, secret string, which uint8) {
		// In an ordinary secret no character is shared with what surrounds it.
		if len(secret) < 16 || len(secret) > 200 || strings.ContainsAny(secret, "\n\r\x00") || strings.TrimSpace(secret) != secret || strings.ToValidUTF8(secret, "") != secret {
			return
		}
		checkTransformation(t, names[int(which)%len(names)], secret)
	})
}

func checkTransformation(t *testing.T, name, secret string) {
	t.Helper()
	c := transformations[name]
	in := configs.Inputs{Secrets: map[string]string{"x": secret}}
	r := newRenderer(t, in)
	file := configs.File{Where: "w", Content: "{{ " + c.expression + " }}"}
	out, err := r.Render("s", file)
	if err != nil {
		return // such as a value that has no ninth character
	}
	made := strings.TrimSpace(string(out.Content))
	if len(made) < 4 {
		return
	}
	line := fmt.Sprintf("last log lines:\n  | option = %s;\n", out.Content)
	if got := r.Redactor().Text(line); strings.Contains(got, made) {
		t.Errorf("%s of %q is shown: %s", name, secret, got)
	}
	if got := redact.New(in.Secrets).Text(line); c.whole && (strings.Contains(got, made) || strings.Contains(got, secret)) {
		t.Errorf("%s of %q is shown where the template was not rendered: %s", name, secret, got)
	}
	if strings.Contains(string(out.Public), secret) {
		t.Errorf("%s of %q is in what people may see: %s", name, secret, out.Public)
	}
	file.Content = "{{ fail (toString (" + c.expression + ")) }}"
	if _, err := newRenderer(t, in).Render("s", file); err != nil && strings.Contains(err.Error(), made) {
		t.Errorf("%s of %q is in the error: %v", name, secret, err)
	}
}

// Words beside a secret stay readable.
func TestNothingElseIsLearned(t *testing.T) {
	r := newRenderer(t, configs.Inputs{Secrets: map[string]string{"x": "hunter2-and-more"}, Vars: map[string]any{"user": "nova"}})
	for _, body := range []string{
		`{{ kindOf (secret "x") }}`, `{{ first (list "nova" (secret "x")) }}`, `{{ join "," (list .vars.user (secret "x")) }}`,
		`{{ toJson (dict "user" .vars.user "password" (secret "x")) }}`, `{{ ternary "qemu" "lxc-" (contains "a" (secret "x")) }}`,
		`{{ upper .vars.user }}{{ secret "x" }}`, `{{ get (dict "user" "nova" "p" (secret "x")) "user" }}`,
	} {
		if _, err := r.Render("s", configs.File{Where: "w", Content: body}); err != nil {
			t.Fatal(err)
		}
	}
	text := "string nova NOVA qemu lxc- user password and more"
	if got := r.Redactor().Text(text); got != text {
		t.Errorf("got %s", got)
	}
	if err := r.Redactor().Error(errors.New("hunter2-and-more")); err.Error() != "<secret x>" {
		t.Errorf("got %v", err)
	}
}
