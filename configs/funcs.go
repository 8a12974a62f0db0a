package configs

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"text/template"

	sprig "github.com/go-task/slim-sprig/v3"

	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/configs/report"
)

// helpers are the functions of sprig that templates may use: those that give
// the same result for the same input, always. Left out on purpose is whatever
// reads the clock, the environment, the network or randomness, depends on the
// order of a map (keys, values), changes a value that the next file will see
// (set, unset), or hides an error (fromJson).
var helpers = []string{
	"add", "add1", "append", "atoi", "b64dec", "b64enc", "base", "cat", "coalesce",
	"compact", "concat", "contains", "default", "dict", "dig", "dir", "div",
	"empty", "fail", "first", "get", "has", "hasKey", "hasPrefix", "hasSuffix",
	"indent", "initial", "int", "int64", "join", "kindIs", "kindOf", "last",
	"list", "lower", "max", "min", "mod", "mul", "mustFromJson",
	"mustRegexFind", "mustRegexMatch", "mustRegexReplaceAll", "nindent", "omit",
	"pick", "prepend", "quote", "repeat", "replace", "rest", "reverse", "round",
	"seq", "sha256sum", "sortAlpha", "splitList", "squote", "sub", "substr",
	"ternary", "toJson", "toString", "toStrings", "trim", "trimAll",
	"trimPrefix", "trimSuffix", "trunc", "uniq", "until", "untilStep", "upper",
	"without",
}

// funcs returns all that a template may call.
func (x *execution) funcs() template.FuncMap {
	funcs := template.FuncMap{
		"secret":    x.secret,
		"required":  x.required,
		"urlescape": x.urlescape,
		"oslo":      oslo,
		"hostport":  hostport,
	}
	maps.Copy(funcs, helperFuncs())
	if x.mode == private && strings.Contains(x.body, "secret") {
		x.learn(funcs)
	}
	return funcs
}

var helperFuncs = sync.OnceValue(func() template.FuncMap {
	all := sprig.GenericFuncMap()
	funcs := template.FuncMap{}
	for _, name := range helpers {
		funcs[name] = all[name]
	}
	return funcs
})

// absent is what a template needs and was not given. Execution goes on with a
// stand-in, so that all of a file's absences are found together.
type absent struct{ kind, name, text string }

func (a *absent) Error() string { return a.text }

// secret returns a secret's value; in a public rendering, its name.
func (x *execution) secret(name string) (string, error) {
	if x.mode == spec {
		return "", fmt.Errorf("a secret cannot be used here: what a container is made from can be read in its engine and in the process list; put it in a file (config:)")
	}
	if x.gaveUp[absent{kind: "secret", name: name}] {
		return "", nil
	}
	value, ok := x.r.in.Secrets[name]
	if !ok {
		return "", &absent{"secret", name, fmt.Sprintf("secret %q is not set; set secrets.%s in the node file%s", name, name, report.DidYouMean(name, sorted(x.r.in.Secrets)))}
	}
	if x.oneLine && strings.ContainsAny(value, "\r\n") {
		return "", fmt.Errorf("secret %q has several lines, and in an INI file a value that is not indented ends with its line; store it as one line", name)
	}
	if x.mode == public {
		return redact.Placeholder(name), nil
	}
	return value, nil
}

// required fails with the given text unless the value is set.
func (x *execution) required(text string, value any) (any, error) {
	v := reflect.ValueOf(value)
	if value != nil && (v.Kind() != reflect.String || v.Len() > 0) {
		return value, nil
	}
	if x.gaveUp[absent{kind: "value", name: text}] {
		return "", nil
	}
	return nil, &absent{"value", text, text}
}

// urlescape makes a value safe as any part of a URL, such as the password in a
// transport_url. It escapes a space as %20, because oslo.messaging reads user
// and password with Python's unquote, which leaves a plus sign alone.
func (x *execution) urlescape(value any) string {
	text := escapeURL(fmt.Sprint(value))
	if x.mode != public {
		return text
	}
	for name := range x.r.in.Secrets {
		text = strings.ReplaceAll(text, escapeURL(redact.Placeholder(name)), redact.Placeholder(name))
	}
	return text
}

func escapeURL(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

// oslo makes a value safe as the value of a key that oslo.config reads: it
// would otherwise take $ for the start of another option's name, and drop
// quotes and spaces around the value.
func oslo(value any) (string, error) {
	text := fmt.Sprint(value)
	if strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("the value has several lines, and expected is one")
	}
	text = strings.ReplaceAll(text, "$", `\$`)
	if text == "" {
		return "", nil
	}
	first, last := text[0], text[len(text)-1]
	if strings.TrimSpace(text) != text || first == last && (first == '"' || first == '\'') {
		text = `"` + text + `"`
	}
	return text, nil
}

// hostport joins a host and a port, with brackets around an IPv6 address.
func hostport(host, port any) string {
	return net.JoinHostPort(fmt.Sprint(host), fmt.Sprint(port))
}
