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

// helpers are the functions of sprig that templates may call: those that always
// return the same result for the same input. Functions are excluded if they read
// the clock, the environment, the network or random numbers, depend on the order
// of a map (keys, values), change a value that the next file uses (set, unset)
// or hide an error (fromJson).
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

// funcs returns the functions that the template may call.
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

// missing is the error for something that a template needs and the node file does
// not set. Execution continues with an empty value, so that everything that a
// file lacks is reported together.
type missing struct{ kind, name, text string }

func (m *missing) Error() string { return m.text }

// secret returns a secret's value, or a placeholder in public mode.
func (x *execution) secret(name string) (string, error) {
	if x.mode == spec {
		return "", fmt.Errorf("a secret cannot be used here: the engine and the process list show a container's settings; use it in a config file (config:)")
	}
	if x.reported[missing{kind: "secret", name: name}] {
		return "", nil
	}
	value, ok := x.r.in.Secrets[name]
	if !ok {
		return "", &missing{"secret", name, fmt.Sprintf("secret %q is not set; set secrets.%s in the node file%s", name, name, report.DidYouMean(name, sorted(x.r.in.Secrets)))}
	}
	if x.oneLine && strings.ContainsAny(value, "\r\n") {
		return "", fmt.Errorf("secret %q has several lines, and a value in an INI file ends with its line unless the next one is indented; store the secret as one line", name)
	}
	if x.mode == public {
		return redact.Placeholder(name), nil
	}
	return value, nil
}

// required returns the value, or fails with the given text if it is not set.
func (x *execution) required(text string, value any) (any, error) {
	v := reflect.ValueOf(value)
	if value != nil && (v.Kind() != reflect.String || v.Len() > 0) {
		return value, nil
	}
	if x.reported[missing{kind: "value", name: text}] {
		return "", nil
	}
	return nil, &missing{"value", text, text}
}

// urlescape escapes a value for any part of a URL, such as the password in a
// transport_url. A space becomes %20, because oslo.messaging decodes user and
// password with Python's unquote, which does not decode a plus sign.
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

// oslo quotes a value for oslo.config, which would otherwise replace $NAME by
// another option's value and drop quotes and spaces around the value.
func oslo(value any) (string, error) {
	text := fmt.Sprint(value)
	if strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("expected one line, got several")
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
